"""Overwriting a table: its rows go and others come in one moment, or nothing changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import penstock
import penstock.spark as pks
from penstock.errors import UnsupportedError

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


def test_nothing_changes_if_the_job_fails(
    spark: SparkSession, url: str, connection: penstock.Connection, table: penstock.Table
) -> None:
    poisoned = fresh(spark).withColumn("city", sf.raise_error(sf.lit("poisoned")).cast("string"))

    with pytest.raises(PySparkException, match="poisoned"):
        pks.write(poisoned, url, table.path, overwrite=True)

    assert cities(table) == dict.fromkeys(range(5), "old")
    assert not [owner for owner in connection.list_owners() if owner.table == table.path]


def test_a_table_that_deletes_nothing_is_not_overwritten(
    spark: SparkSession, url: str, connection: penstock.Connection, path: str
) -> None:
    connection.create_table(path, ORDERS, properties={"delete.behavior": "disable"})

    with pytest.raises((PySparkException, UnsupportedError), match=r"delete\.behavior=allow"):
        pks.write(fresh(spark), url, path, overwrite=True)
