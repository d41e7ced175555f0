"""Reading into Spark: a whole table beside Parquet files of the same rows, warm, and as a program's first read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import penstock
import penstock.spark as pks
from bench.measurement import Measurement, Timing
from bench.spark_session import in_turn, spark_session, to_nothing
from bench.workload import SCHEMA, Workload
from penstock.testing.server import ServerProcess

BUCKETS = 4
ROWS_TIMES = 4
"""Spark needs a while to start a job: fewer rows would measure that."""

WARM_UPS = 3
REPEATS = 5
PEER = "spark.read.parquet"


def run(work: Workload) -> list[Measurement]:
    """Read a table to nothing, all columns and two, beside Parquet; then load it anew each time."""
    work = replace(work, rows=ROWS_TIMES * work.rows, batch_rows=5 * work.batch_rows)
    with (
        work.directory() as directory,
        ServerProcess(directory / "data") as server,
        spark_session(directory) as spark,
        penstock.connect(server.url) as conn,
    ):
        table = conn.create_table("bench", SCHEMA, primary_key=["id"], buckets=BUCKETS)
        for batch in work.batches():
            table.upsert(batch)
        files = _parquet(work, directory / "parquet")
        return [
            _read(spark, work, server.url, files, name="all columns", columns=SCHEMA.names),
            _read(spark, work, server.url, files, name="two columns", columns=["id", "amount"]),
            _loads(spark, work, server.url, files),
        ]


def _read(spark: SparkSession, work: Workload, url: str, files: Path, *, name: str, columns: list[str]) -> Measurement:
    ours = pks.read(spark, url, "bench", columns=columns)
    peer = spark.read.parquet(str(files)).select(*columns)
    both = in_turn(partial(to_nothing, ours), partial(to_nothing, peer), warm=WARM_UPS, repeats=REPEATS)
    return _measured(f"spark batch read, {name}", work.rows, *both)


def _loads(spark: SparkSession, work: Workload, url: str, files: Path) -> Measurement:
    both = in_turn(
        lambda: to_nothing(pks.read(spark, url, "bench")),
        lambda: to_nothing(spark.read.parquet(str(files))),
        warm=1,
        repeats=REPEATS,
    )
    return _measured("spark load and batch read, all columns", work.rows, *both)


def _measured(job: str, rows: int, ours: Timing, peer: Timing) -> Measurement:
    return Measurement(job, "rows/s", ours.rate(rows), PEER, peer.rate(rows), ours.spread)


def _parquet(work: Workload, files: Path) -> Path:
    """Write the same rows as Parquet, in as many files as the table has buckets."""
    files.mkdir()
    rows = pa.Table.from_batches(work.batches())
    size = -(-work.rows // BUCKETS)
    for number in range(BUCKETS):
        pq.write_table(rows.slice(number * size, size), files / f"part-{number}.parquet")
    return files
