"""Reading into Spark: a whole table beside Parquet files of the same rows, and how soon a stream shows an upsert."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import penstock
import penstock.spark as pks
from bench.measurement import Measurement, timed
from bench.workload import SCHEMA, Workload
from penstock.spark.java import use_java
from penstock.testing.server import ServerProcess

BUCKETS = 4
UPSERTS = 30
ROWS_TIMES = 4
"""Spark needs a second to start a job: fewer rows would measure that."""

WARM_UPS = 3


def run(work: Workload) -> list[Measurement]:
    """Read a table to nothing, all columns and two, beside Parquet; then measure freshness."""
    work = replace(work, rows=ROWS_TIMES * work.rows)
    with (
        work.directory() as directory,
        ServerProcess(directory / "data") as server,
        _spark(directory) as spark,
        penstock.connect(server.url) as conn,
    ):
        table = conn.create_table("bench", SCHEMA, primary_key=["id"], buckets=BUCKETS)
        for batch in work.batches():
            table.upsert(batch)
        files = _parquet(work, directory / "parquet")
        return [*_reads(spark, work, server.url, table.path, files), _freshness(spark, server.url, conn, directory)]


def _reads(spark: SparkSession, work: Workload, url: str, path: str, files: Path) -> list[Measurement]:
    results = []
    for name, columns in (("all columns", SCHEMA.names), ("two columns", ["id", "amount"])):
        ours = pks.read(spark, url, path, columns=columns)
        peer = spark.read.parquet(str(files)).select(*columns)
        for _ in range(WARM_UPS):
            _to_nothing(ours)
            _to_nothing(peer)
        mine, theirs = timed(partial(_to_nothing, ours)), timed(partial(_to_nothing, peer))
        results.append(
            Measurement(
                f"spark batch read, {name}",
                "rows/s",
                mine.rate(work.rows),
                "spark.read.parquet",
                theirs.rate(work.rows),
                mine.spread,
            )
        )
    return results


def _freshness(spark: SparkSession, url: str, conn: penstock.Connection, directory: Path) -> Measurement:
    """Measure the time from an upsert to its row in a streaming query's sink."""
    table = conn.create_table("fresh", "id BIGINT, PRIMARY KEY (id)", buckets=2)
    seen = threading.Semaphore(0)

    def show(frame: DataFrame, _: int) -> None:
        if frame.count():
            seen.release()

    query = (
        pks.read_stream(spark, url, table.path)
        .writeStream.foreachBatch(show)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start()
    )
    try:
        seconds = []
        for number in range(UPSERTS):
            start = time.perf_counter()
            table.upsert([{"id": number}])
            assert seen.acquire(timeout=60)
            seconds.append(time.perf_counter() - start)
    finally:
        query.stop()
    p50, p99 = np.percentile(seconds[2:], (50, 99))
    return Measurement(
        "spark stream, upsert to sink, p50", "per s", 1 / p50, "the same, p99", 1 / p99, 100 * (p99 - p50) / p50
    )


def _to_nothing(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _parquet(work: Workload, files: Path) -> Path:
    """Write the same rows as Parquet, in as many files as the table has buckets."""
    files.mkdir()
    rows = pa.Table.from_batches(work.batches())
    size = -(-work.rows // BUCKETS)
    for number in range(BUCKETS):
        pq.write_table(rows.slice(number * size, size), files / f"part-{number}.parquet")
    return files


@contextmanager
def _spark(directory: Path) -> Iterator[SparkSession]:
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    source = str(Path(penstock.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    session = (
        SparkSession.builder.master("local[2]")
        .appName("bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .getOrCreate()
    )
    try:
        yield session
    finally:
        session.stop()
