"""Writing from Spark: a batch beside Parquet, and upserts of several sizes beside merges into a Delta table.

The merges are made by the `deltalake` package in this process, which has no way from Spark but through Arrow:
it takes the rows of the same DataFrame by `toArrow`. Its table has the change data feed on, for ours has a
changelog, and its new files are synced, for ours are.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import penstock
import penstock.spark as pks
from bench.measurement import Measurement, Timing
from bench.spark_session import in_turn, spark_session
from bench.workload import SCHEMA, Workload, rows
from penstock.testing.server import ServerProcess

BUCKETS = 4
ROWS = 4_000_000
"""At least: a merge costs what the table costs, and who merges has a table that is larger than what comes in."""

MERGES = (1_000, 10_000, 100_000, 1_000_000)


def run(work: Workload) -> list[Measurement]:
    """Fill a table and a Delta table of the same rows; write a quarter of them again; then upsert ever more."""
    work = replace(work, rows=max(ROWS, 4 * work.rows), batch_rows=5 * work.batch_rows)
    with (
        work.directory() as directory,
        ServerProcess(directory / "data") as server,
        spark_session(directory) as spark,
        penstock.connect(server.url) as conn,
    ):
        table = conn.create_table("bench", SCHEMA, primary_key=["id"], buckets=BUCKETS)
        for batch in work.batches():
            table.upsert(batch)
        delta = _DeltaTable(directory / "delta", pa.Table.from_batches(work.batches()))
        return [
            *_whole(spark, work, directory, server.url),
            *(_merge(spark, work, delta, url=server.url, size=size, files=directory / f"{size}") for size in MERGES),
        ]


def _whole(spark: SparkSession, work: Workload, directory: Path, url: str) -> list[Measurement]:
    count = work.rows // 4
    df = _cached(spark, pa.Table.from_batches([rows(work.ids(1)[:count], 1)]), directory / "whole")
    out = str(directory / "out")
    results = []
    for name, ours in (
        ("spark batch write, upsert", partial(pks.write, df, url, "bench")),
        ("spark batch write, ordered", partial(pks.write, df, url, "bench", order_by="at")),
    ):
        both = in_turn(ours, partial(df.write.mode("overwrite").parquet, out), warm=1, repeats=3)
        results.append(_measured(name, count, both, "Parquet, same rows"))
    df.unpersist()
    return results


def _merge(spark: SparkSession, work: Workload, delta: _DeltaTable, *, url: str, size: int, files: Path) -> Measurement:
    ids = np.random.default_rng(work.seed).choice(work.rows, size, replace=False).astype(np.int64)
    df = _cached(spark, pa.Table.from_batches([rows(ids, 3)]), files)
    both = in_turn(partial(pks.write, df, url, "bench"), lambda: delta.merge(df.toArrow()), warm=1, repeats=3)
    df.unpersist()
    return _measured(f"spark upsert of {size:,} into {work.rows:,}", size, both, "toArrow, deltalake merge")


def _measured(job: str, count: int, both: tuple[Timing, Timing], beside: str) -> Measurement:
    ours, peer = both
    return Measurement(job, "rows/s", ours.rate(count), beside, peer.rate(count), ours.spread)


def _cached(spark: SparkSession, data: pa.Table, files: Path) -> DataFrame:
    """Return rows that Spark holds in memory, in two partitions."""
    files.mkdir()
    half = -(-data.num_rows // 2)
    for number in range(2):
        pq.write_table(data.slice(number * half, half), files / f"{number}.parquet")
    df = spark.read.parquet(str(files)).cache()
    df.count()
    return df


class _DeltaTable:
    """A table of Delta Lake in local files."""

    def __init__(self, directory: Path, data: pa.Table) -> None:
        self._directory = directory
        deltalake.write_deltalake(str(directory), data, configuration={"delta.enableChangeDataFeed": "true"})
        self._known: set[Path] = set()
        self._sync()

    def merge(self, data: pa.Table) -> None:
        """Merge rows by id, and make what was written durable."""
        table = deltalake.DeltaTable(str(self._directory))
        merge = table.merge(data, predicate="t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        self._sync()

    def _sync(self) -> None:
        new = {path for path in self._directory.rglob("*") if path.is_file()} - self._known
        for path in new:
            with path.open("rb") as file:
                os.fsync(file.fileno())
        self._known |= new
