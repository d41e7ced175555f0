"""Overwriting a table: its rows go and others come in one moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import penstock
import penstock.spark as pks

ORDERS = "id BIGINT, city STRING, PRIMARY KEY (id)"
ROWS = "id bigint, city string"


@pytest.fixture
def table(connection: penstock.Connection, path: str) -> penstock.Table:
    """Return a table of five old rows."""
    made = connection.create_table(path, ORDERS, buckets=2)
    made.upsert([{"id": key, "city": "old"} for key in range(5)])
    return made


def fresh(spark: SparkSession) -> DataFrame:
    return spark.range(3, 6, numPartitions=2).withColumn("city", sf.lit("new"))


def cities(table: penstock.Table) -> dict[int, str]:
    return {row["id"]: row["city"] for row in table.scan().to_arrow().to_pylist()}


def written_meanwhile(url: str, path: str) -> Any:
    """Return what a task does: somebody else writes while it runs."""

    def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with penstock.connect(url) as other:
            other.table(path).upsert([{"id": key, "city": "other"} for key in (0, 4, 5000)])
        yield from batches

    return passed


@pytest.mark.parametrize("way", ["function", "format"])
def test_all_rows_go_also_those_that_others_wrote_while_the_job_ran(
    spark: SparkSession, url: str, table: penstock.Table, way: str
) -> None:
    data = fresh(spark).mapInArrow(written_meanwhile(url, table.path), ROWS)

    if way == "function":
        pks.write(data, url, table.path, overwrite=True)
    else:
        data.write.format("penstock").options(url=url, table=table.path).mode("overwrite").save()

    assert cities(table) == {3: "new", 4: "new", 5: "new"}


def test_a_reader_sees_the_old_rows_or_the_new_ones(spark: SparkSession, url: str, table: penstock.Table) -> None:
    seen: list[dict[int, str]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(cities(table))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        pks.write(fresh(spark), url, table.path, overwrite=True)
    finally:
        done.set()
        reader.join()

    assert dict.fromkeys(range(5), "old") in seen
    assert all(rows in (dict.fromkeys(range(5), "old"), dict.fromkeys(range(3, 6), "new")) for rows in seen)
