"""Streams through Spark: a micro-batch beside one into nothing, and how soon an upsert is seen downstream."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import penstock
import penstock.spark as pks
from bench.measurement import Measurement
from bench.spark_session import spark_session
from bench.workload import Workload
from penstock.testing.server import ServerProcess

BUCKETS = 2
MICRO_ROWS = 1_000
MICRO_BATCHES = 25
WARM_UPS = 10
UPSERTS = 40
WAIT_SECONDS = 60.0
LOOK_SECONDS = 0.005
POLL_SECONDS = 0.2
"""To ask for a query's progress is work for Python and Spark both."""


def run(work: Workload) -> list[Measurement]:
    """Measure micro-batches and freshness."""
    with (
        work.directory() as directory,
        ServerProcess(directory / "data") as server,
        spark_session(directory) as spark,
        penstock.connect(server.url) as conn,
    ):
        return [*_micro_batches(spark, server.url, conn, directory), _freshness(spark, server.url, conn, directory)]


def _micro_batches(spark: SparkSession, url: str, conn: penstock.Connection, directory: Path) -> list[Measurement]:
    """Take the same rows, by the same source, in as many micro-batches; what is compared is Spark's own time of one."""
    conn.create_table("micro", "value BIGINT, timestamp TIMESTAMP, PRIMARY KEY (value)", buckets=BUCKETS)
    results = []
    for partitions in (1, 2):
        source = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", MICRO_ROWS)
            .option("numPartitions", partitions)
            .load()
        )
        name = f"{partitions}-partitions"
        noop = source.writeStream.format("noop").option("checkpointLocation", str(directory / f"noop-{name}"))
        theirs = _seconds(noop.start())
        mine = _seconds(pks.write_stream(source, url, "micro", checkpoint=str(directory / f"micro-{name}")))
        job = f"spark micro-batch of {MICRO_ROWS:,} rows from {partitions} partition(s)"
        results.append(Measurement(job, "per min", 60 / mine, "rate source into noop", 60 / theirs))
    return results


def _seconds(query: StreamingQuery) -> float:
    """Return the median time of a micro-batch of a query, and stop it."""
    end = time.monotonic() + WAIT_SECONDS
    try:
        while len(query.recentProgress) < WARM_UPS + MICRO_BATCHES and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
        taken = [progress.durationMs["triggerExecution"] for progress in query.recentProgress if progress.numInputRows]
    finally:
        query.stop()
    return float(np.median(taken[WARM_UPS:])) / 1000


def _freshness(spark: SparkSession, url: str, conn: penstock.Connection, directory: Path) -> Measurement:
    """Measure the time from an upsert to the row in the table that a streaming query fills."""
    upstream = conn.create_table("upstream", "id BIGINT, PRIMARY KEY (id)", buckets=BUCKETS)
    downstream = conn.create_table("downstream", "id BIGINT, PRIMARY KEY (id)", buckets=BUCKETS)
    changes: DataFrame = pks.read_stream(spark, url, upstream.path)
    query = pks.write_stream(changes, url, downstream.path, operation="apply", checkpoint=str(directory / "downstream"))
    try:
        seconds = [_until_seen(upstream, downstream, number) for number in range(UPSERTS)]
    finally:
        query.stop()
    p50, p99 = np.percentile(seconds[WARM_UPS:], (50, 99))
    return Measurement(
        "spark stream, upsert to downstream table, p50",
        "per min",
        60 / p50,
        "the same, p99",
        60 / p99,
        100 * (p99 - p50) / p50,
    )


def _until_seen(upstream: penstock.Table, downstream: penstock.Table, number: int) -> float:
    start = time.perf_counter()
    upstream.upsert([{"id": number}])
    while downstream.get(id=number) is None:
        assert time.perf_counter() - start < WAIT_SECONDS, "the row did not arrive"
        time.sleep(LOOK_SECONDS)
    return time.perf_counter() - start
