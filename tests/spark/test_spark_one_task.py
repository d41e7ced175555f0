"""What a sink spares: a shuffle of rows that one task has already, and the collector's look at what stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
import penstock.spark as pks
from penstock.spark.session.links import planning_link
from penstock.spark.session.options import Options
from penstock.spark.writing.bucket_shuffle import place
from penstock.spark.writing.write_plan import plan_write

BUCKETS = 3
SUMS = "k BIGINT, n BIGINT SUM, PRIMARY KEY (k)"


def rows_in(spark: SparkSession, partitions: int) -> DataFrame:
    """Return a stream of 300 rows of 100 keys, in as many tasks."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 300)
    return source.option("numPartitions", partitions).load().selectExpr("value % 100 AS k", "1L AS n")


@pytest.mark.parametrize(("partitions", "tasks"), [(1, 1), (2, BUCKETS)])
def test_only_rows_of_several_tasks_are_shuffled_to_their_buckets(  # noqa: PLR0917 - fixtures
    spark: SparkSession,
    connection: penstock.Connection,
    url: str,
    path: str,
    tmp_path: Path,
    partitions: int,
    tasks: int,
) -> None:
    table = connection.create_table(path, SUMS, buckets=BUCKETS)
    options = Options({"url": url, "table": path})
    sink = pks.sink(url, path)
    seen: list[int] = []

    def write(df: DataFrame, batch: int) -> None:
        seen.append(place(df, plan_write(options, planning_link(options), df.schema)).rdd.getNumPartitions())
        sink(df, batch)

    writer = rows_in(spark, partitions).writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()

    assert seen == [tasks]
    assert {row["n"] for row in table.scan().to_arrow().to_pylist()} == {3}
    assert table.stats().live_rows == 100


@pytest.mark.usefixtures("by_tasks")
def test_a_worker_that_wrote_collects_only_what_came_later(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    connection.create_table(path, SUMS, buckets=BUCKETS)
    pks.write(spark.range(100, numPartitions=2).selectExpr("id AS k", "1L AS n"), url, path)

    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"objects": [gc.get_freeze_count()]})

    # The Python workers are reused: these are those that wrote.
    counts = spark.range(2, numPartitions=2).mapInArrow(frozen, "objects bigint").collect()

    assert all(row.objects > 0 for row in counts)
