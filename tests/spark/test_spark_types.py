"""Every type reads in Spark as it was written, nested ones too, in any time zone."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType, TimestampNTZType

import penstock
import penstock.spark as pks
from penstock.errors import SchemaMismatchError

UTC = dt.UTC
COLUMNS: list[tuple[str, pa.DataType, list[Any]]] = [
    ("flag", pa.bool_(), [True, False]),
    ("tiny", pa.int8(), [-128, 127]),
    ("small", pa.int16(), [-32768, 32767]),
    ("normal", pa.int32(), [-(2**31), 2**31 - 1]),
    ("big", pa.int64(), [-(2**63), 2**63 - 1]),
    ("single", pa.float32(), [1.5, float("-inf")]),
    ("double", pa.float64(), [0.1, 1e308]),
    ("money", pa.decimal128(18, 2), [Decimal("-1.25"), Decimal("9999999999999999.99")]),
    ("wide", pa.decimal128(38, 10), [Decimal("0.0000000001"), Decimal("-1e20")]),
    ("text", pa.string(), ["", "Zürich 🏔"]),
    ("long_text", pa.large_string(), ["a", "b" * 1000]),
    ("raw", pa.binary(), [b"", b"\x00\xff"]),
    ("long_raw", pa.large_binary(), [b"x", b"y" * 1000]),
    ("day", pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (
        "at",
        pa.timestamp("us", tz="UTC"),
        [dt.datetime(1970, 1, 1, tzinfo=UTC), dt.datetime(2026, 7, 1, 12, 30, 0, 123456, UTC)],
    ),
    (
        "berlin",
        pa.timestamp("us", tz="Europe/Berlin"),
        [dt.datetime(2026, 1, 1, tzinfo=UTC), dt.datetime(2026, 7, 1, tzinfo=UTC)],
    ),
    ("wall", pa.timestamp("us"), [dt.datetime(2026, 3, 29, 2, 30), dt.datetime(1900, 1, 1)]),
    ("items", pa.list_(pa.string()), [[], ["a", None]]),
    ("full", pa.list_(pa.field("item", pa.int32(), nullable=False)), [[1], [2, 3]]),
    ("long_items", pa.large_list(pa.large_string()), [["q"], []]),
    (
        "place",
        pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("name", pa.string())]),
        [{"x": 1, "name": None}, {"x": 2, "name": "n"}],
    ),
    ("tags", pa.map_(pa.string(), pa.int64()), [[], [("k", 1), ("z", None)]]),
    (
        "deep",
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.timestamp("us", tz="UTC"))))])),
        [[{"m": [("k", [dt.datetime(2026, 1, 1, tzinfo=UTC)])]}], [{"m": None}, None]],
    ),
]


def written(connection: penstock.Connection, path: str) -> penstock.Table:
    fields = [pa.field("id", pa.int64(), nullable=False), *(pa.field(name, type_) for name, type_, _ in COLUMNS)]
    table = connection.create_table(path, pa.schema(fields), primary_key=["id"], buckets=2)
    arrays = [pa.array([*values, None], type_) for _, type_, values in COLUMNS]
    table.upsert(pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), *arrays], schema=pa.schema(fields)))
    return table


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_all_types_read_equal_in_any_session_time_zone(
    new_session: SparkSession, url: str, connection: penstock.Connection, path: str, zone: str
) -> None:
    table, session = written(connection, path), new_session
    session.conf.set("spark.sql.session.timeZone", zone)

    expected = table.scan().to_arrow().sort_by("id")
    for loaded in (pks.read(session, url, path), session.read.format("penstock").options(url=url, table=path).load()):
        frame = loaded.orderBy("id")
        # Spark's own toArrow cannot carry a null struct whose field is never null.
        read = frame.drop("place").toArrow()
        places = [row["place"] and row["place"].asDict() for row in frame.select("place").collect()]

        assert read.to_pydict() == expected.drop_columns(["place"]).to_pydict()
        assert places == expected.column("place").to_pylist()


@pytest.mark.usefixtures("by_tasks")
def test_a_null_struct_whose_fields_are_never_null_travels_both_ways(
    spark: SparkSession, url: str, connection: penstock.Connection, path: str
) -> None:
    inner = pa.struct([pa.field("x", pa.list_(pa.int32()), nullable=False)])
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("place", inner), pa.field("all", pa.list_(inner))]
    table = connection.create_table(path, pa.schema(fields), primary_key=["id"], buckets=2)
    # Spark's columns may be null at every level.
    rows = spark.sql("SELECT 1L AS id, NAMED_STRUCT('x', ARRAY(1, NULL)) AS place, ARRAY() AS all").union(
        spark.sql("SELECT 2L, NULL, ARRAY(NULL, NAMED_STRUCT('x', ARRAY(3)))")
    )

    pks.write(rows, url, path)
    table.delete([{"id": 1}])
    changes = pks.changes(spark, url, path, images="after").select("id", "place", "all", "_change_type").collect()

    assert pks.read(spark, url, path).collect() == rows.where("id = 2").collect()
    assert sorted(map(tuple, changes), key=lambda change: (change[0], change[3])) == [
        (1, ([1, None],), [], "+I"),
        (1, None, None, "-D"),
        (2, None, [None, ([3],)], "+I"),
    ]
    with pytest.raises(SchemaMismatchError, match="the column's type allows no null there"):
        pks.write(rows.selectExpr("id", "NAMED_STRUCT('x', CAST(NULL AS ARRAY<INT>)) AS place", "all"), url, path)


def test_nullability_and_nested_types_are_told_to_spark(
    spark: SparkSession, url: str, connection: penstock.Connection, path: str
) -> None:
    written(connection, path)

    schema = pks.read(spark, url, path).schema

    assert not schema["id"].nullable
    assert schema["full"].dataType == ArrayType(IntegerType(), containsNull=False)
    assert schema["items"].dataType == ArrayType(StringType(), containsNull=True)
    assert schema["place"].dataType == StructType(
        [StructField("x", IntegerType(), nullable=False), StructField("name", StringType())]
    )
    assert schema["wall"].dataType == TimestampNTZType()
    assert schema["deep"].dataType.simpleString() == "array<struct<m:map<string,array<timestamp>>>>"
