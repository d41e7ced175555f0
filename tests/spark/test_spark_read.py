"""Batch reads: Spark sees what the client sees, at one cut for each execution."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import penstock
import penstock.spark as pks


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return by_id([row.asDict(recursive=True) for row in frame.collect()])


def rows_in(table: penstock.Table, **scan: Any) -> list[dict[str, Any]]:
    return by_id(table.scan(**scan).to_arrow().to_pylist())


def test_table_reads_as_the_client_reads_it(spark: SparkSession, url: str, orders: penstock.Table) -> None:
    frame = pks.read(spark, url, orders.path)

    assert rows_of(frame) == rows_in(orders)
    assert frame.schema.simpleString() == "struct<id:bigint,city:string,amount:double>"
    assert not frame.schema["id"].nullable


def test_format_is_found_without_registering_and_takes_options_in_any_case(
    spark: SparkSession, url: str, orders: penstock.Table
) -> None:
    frame = spark.newSession().read.format("penstock").options(URL=url, Table=orders.path, FILTER="id < 10").load()

    assert rows_of(frame) == rows_in(orders, filter="id < 10")
