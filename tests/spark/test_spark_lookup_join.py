"""Lookup joins: rows with what the table holds for their key now."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import penstock
import penstock.spark as pks
from penstock.errors import InvalidError, UnsupportedError


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


def test_requests_that_make_no_sense_are_refused(
    spark: SparkSession, url: str, connection: penstock.Connection, orders: penstock.Table, path: str
) -> None:
    log = f"{path}_log"
    connection.create_table(log, "id BIGINT")

    with pytest.raises(InvalidError, match="how is one of"):
        pks.lookup_join(spark.range(3), url, orders.path, how="outer")
    with pytest.raises(InvalidError, match="on="):
        pks.lookup_join(spark.range(3).toDF("x"), url, orders.path)
    with pytest.raises(InvalidError, match="rename"):
        pks.lookup_join(spark.range(3).selectExpr("id", "'a' AS city"), url, orders.path)
    with pytest.raises(UnsupportedError, match="primary key"):
        pks.lookup_join(spark.range(3), url, log)
