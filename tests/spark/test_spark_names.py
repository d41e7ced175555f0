"""Columns of any name travel both ways: with dots, spaces, backticks, letters of any script, reserved words."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import penstock
import penstock.spark as pks
from penstock.errors import InvalidError, SchemaMismatchError
from penstock.spark.session.column_name import quoted

NAMES = ["a.b", "order date", "back`tick", "ÜBER", "日本", "select", "comma,ted", "_id", "desc"]


@pytest.fixture
def odd(connection: penstock.Connection, path: str) -> penstock.Table:
    """Return a table whose columns, one of its key too, are called as few would call them."""
    fields = [pa.field("key`s.id", pa.int64(), nullable=False), *(pa.field(name, pa.string()) for name in NAMES)]
    return connection.create_table(path, pa.schema(fields), primary_key=["key`s.id"], buckets=2)


@pytest.mark.usefixtures("by_tasks")
def test_odd_names_are_written_ordered_read_joined_and_streamed(
    spark: SparkSession, url: str, odd: penstock.Table, connection: penstock.Connection, tmp_path: Path
) -> None:
    ids = spark.range(20).select(sf.col("id").alias("key`s.id"))
    rows = ids.select("*", *(sf.concat(sf.lit(name), sf.col(quoted("key`s.id"))).alias(name) for name in NAMES))
    copy = connection.create_table(f"{odd.path}_copy", odd.schema, primary_key=["key`s.id"], buckets=2)

    pks.write(rows, url, odd.path)
    pks.write(rows, url, odd.path, columns=["a.b", "comma,ted"], order_by=["order date desc", "desc", "back`tick"])
    stream = pks.read_stream(spark, url, odd.path)
    checkpoint = str(tmp_path / "checkpoint")
    pks.write_stream(
        stream, url, copy.path, operation="apply", checkpoint=checkpoint, trigger={"availableNow": True}
    ).awaitTermination()

    expected = sorted(map(tuple, rows.collect()))
    assert sorted(map(tuple, pks.read(spark, url, copy.path).collect())) == expected
    assert sorted(map(tuple, pks.lookup_join(ids, url, odd.path).collect())) == expected
    assert sorted(map(tuple, pks.to_buckets(rows, url, odd.path).collect())) == expected
    assert pks.read(spark, url, odd.path, columns=["a.b", "select"]).columns == ["a.b", "select"]


@pytest.mark.usefixtures("by_tasks")
def test_odd_names_are_folded(spark: SparkSession, url: str, connection: penstock.Connection, path: str) -> None:
    fields = pa.schema([pa.field("k`.k", pa.int64(), nullable=False), pa.field("n.`n", pa.int64())])
    table = connection.create_table(path, fields, primary_key=["k`.k"], aggregates={"n.`n": "sum"}, buckets=2)
    rows = spark.range(10).select((sf.col("id") % 2).alias("k`.k"), sf.col("id").alias("n.`n"))

    pks.write(pks.pre_aggregate(rows, url, path), url, path, agg_mode="merge_state")

    assert sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist()) == [(0, 20), (1, 25)]


def test_names_that_two_columns_of_the_data_share_are_refused(
    spark: SparkSession, url: str, orders: penstock.Table
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    by_case = session.range(3).selectExpr("id", "'a' AS city", "'b' AS City", "1.5D AS amount")
    same = spark.range(3).selectExpr("id", "'a' AS city", "'b' AS city", "1.5D AS amount")
    before = orders.cut()

    for rows in (by_case, same):
        with pytest.raises(SchemaMismatchError, match=r"two columns of the data have this name .* column=city"):
            pks.write(rows, url, orders.path)
        pks.write(rows.where("false"), url, orders.path, columns=["amount"])

    assert orders.cut() == before


def test_a_list_of_names_is_no_string(spark: SparkSession, url: str, orders: penstock.Table) -> None:
    with pytest.raises(InvalidError, match="takes a list of names"):
        pks.read(spark, url, orders.path, columns="id,city")
    with pytest.raises(InvalidError, match="takes a list of names"):
        pks.write(spark.range(1), url, orders.path, columns="city")
    with pytest.raises(InvalidError, match="takes a list of names"):
        pks.lookup_join(spark.range(1), url, orders.path, columns="city")
