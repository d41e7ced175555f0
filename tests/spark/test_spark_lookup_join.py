"""Lookup joins: rows with what the table holds for their key now."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock
import penstock.spark as pks
from penstock.errors import InvalidError, SchemaMismatchError, UnsupportedError


def test_left_join_keeps_rows_without_a_match_and_inner_does_not(
    spark: SparkSession, url: str, orders: penstock.Table
) -> None:
    clicks = spark.createDataFrame([(1, 7), (2, None), (3, 100), (4, 8)], "click int, order long")

    left = pks.lookup_join(clicks, url, orders.path, on="order", columns=["city", "amount"])
    inner = pks.lookup_join(clicks, url, orders.path, on={"order": "id"}, how="inner")

    assert sorted(map(tuple, left.collect())) == [
        (1, 7, "c0", 3.5),
        (2, None, None, None),
        (3, 100, None, None),
        (4, 8, "c1", 4.0),
    ]
    assert sorted(map(tuple, inner.collect())) == [(1, 7, "c0", 3.5), (4, 8, "c1", 4.0)]


def test_join_sees_the_present_in_every_execution(spark: SparkSession, url: str, orders: penstock.Table) -> None:
    joined = pks.lookup_join(spark.range(5, 6), url, orders.path)
    before = joined.collect()

    orders.upsert([{"id": 5, "city": "elsewhere", "amount": 1.0}])

    assert [tuple(row) for row in before] == [(5, "c5", 2.5)]
    assert [tuple(row) for row in joined.collect()] == [(5, "elsewhere", 1.0)]


def test_join_finds_keys_of_other_types_and_zones(
    spark: SparkSession, url: str, connection: penstock.Connection, path: str
) -> None:
    table = connection.create_table(path, "at TIMESTAMP, n INT, v STRING, PRIMARY KEY (at, n)")
    frame = spark.sql("SELECT timestamp'2026-01-02 03:04:05Z' AS at, 7 AS n")
    table.upsert(frame.selectExpr("at", "n", "'x' AS v").toArrow())

    found = pks.lookup_join(frame, url, path, columns=["v"]).collect()

    assert [row["v"] for row in found] == ["x"]


def test_join_finds_nested_columns_also_those_that_are_null(
    spark: SparkSession, url: str, connection: penstock.Connection, path: str
) -> None:
    inner = pa.struct(
        [pa.field("x", pa.list_(pa.int32()), nullable=False), pa.field("m", pa.map_(pa.string(), pa.int64()))]
    )
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("place", inner), pa.field("all", pa.list_(inner))]
    table = connection.create_table(path, pa.schema(fields), primary_key=["id"], buckets=2)
    place = {"x": [1, None], "m": [("k", 1)]}
    columns = [[1, 2], [place, None], [[place, None], []]]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    table.upsert(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))

    found = pks.lookup_join(spark.range(4), url, path).orderBy("id").collect()

    kept = {"x": [1, None], "m": {"k": 1}}
    assert [row.asDict(recursive=True) for row in found] == [
        {"id": 0, "place": None, "all": None},
        {"id": 1, "place": kept, "all": [kept, None]},
        {"id": 2, "place": None, "all": []},
        {"id": 3, "place": None, "all": None},
    ]


def test_join_with_a_table_of_keys_alone_tells_which_are_there(
    spark: SparkSession, url: str, connection: penstock.Connection, path: str
) -> None:
    table = connection.create_table(path, "a INT, b STRING, PRIMARY KEY (a, b)")
    table.upsert([{"a": 1, "b": "x"}])
    rows = spark.createDataFrame([(1, "x"), (1, "x"), (1, None), (2, "x")], "A bigint, `b.b` string")

    inner = pks.lookup_join(rows, url, path, on={"a": "A", "b.b": "B"}, how="inner")

    assert (inner.columns, list(map(tuple, inner.collect()))) == (rows.columns, [(1, "x"), (1, "x")])
    assert pks.lookup_join(rows, url, path, on=["A", "b.b"]).count() == 4


def test_requests_that_make_no_sense_are_refused(
    spark: SparkSession, url: str, connection: penstock.Connection, orders: penstock.Table, path: str
) -> None:
    log = f"{path}_log"
    connection.create_table(log, "id BIGINT")

    with pytest.raises(InvalidError, match="how is one of"):
        pks.lookup_join(spark.range(3), url, orders.path, how="outer")
    with pytest.raises(InvalidError, match="on="):
        pks.lookup_join(spark.range(3).toDF("x"), url, orders.path)
    for name in ("city", "CITY"):
        with pytest.raises(InvalidError, match="rename"):
            pks.lookup_join(spark.range(3).selectExpr("id", f"'a' AS {name}"), url, orders.path)
    with pytest.raises(SchemaMismatchError, match="the key cannot take; cast it first column=id type=string"):
        pks.lookup_join(spark.range(3).selectExpr("CAST(id AS STRING) AS id"), url, orders.path)
    with pytest.raises(UnsupportedError, match="primary key"):
        pks.lookup_join(spark.range(3), url, log)
