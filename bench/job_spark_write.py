"""Writing from Spark: a batch beside Parquet and beside a Delta merge; a micro-batch beside one into nothing."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import penstock
import penstock.spark as pks
from bench.measurement import Measurement, Timing, timed
from bench.workload import SCHEMA, Workload
from penstock.spark.java import use_java

BUCKETS = 4
MICRO_BATCHES = 20
MICRO_ROWS = 1_000


def run(work: Workload) -> list[Measurement]:
    """Write a table twice over, merge it, and stream small micro-batches into it."""
    with work.directory() as directory, penstock.serve(directory / "data") as server:
        spark = _spark(directory)
        with penstock.connect(server.url) as conn:
            conn.create_database("bench")
            conn.create_table("bench.t", SCHEMA, primary_key=["id"], buckets=BUCKETS)
            conn.create_table("bench.s", SCHEMA, primary_key=["id"], buckets=BUCKETS)
        try:
            return [*_batches(spark, work, directory, server.url), *_stream(spark, work, directory, server.url)]
        finally:
            spark.stop()


def _batches(spark: SparkSession, work: Workload, directory: Path, url: str) -> list[Measurement]:
    df = _input(spark, work, directory)
    pks.write(df, url, "bench.t")  # Now every row is there: what is timed replaces them.
    ours = timed(lambda: pks.write(df, url, "bench.t"))
    ordered = timed(lambda: pks.write(df, url, "bench.t", order_by="at"))
    parquet = timed(lambda: df.write.mode("overwrite").parquet(str(directory / "out")))
    rates = [
        _measured("Spark batch write, upsert", work.rows, ours, "Parquet, same rows", parquet),
        _measured("Spark batch write, ordered", work.rows, ordered, "Parquet, same rows", parquet),
    ]
    merge = _delta_merge(work, directory)
    if merge is not None:
        rates.append(_measured("Spark batch write, upsert", work.rows, ours, "deltalake merge", merge))
    return rates


def _stream(spark: SparkSession, work: Workload, directory: Path, url: str) -> list[Measurement]:
    files = directory / "micro"
    files.mkdir()
    for number, batch in enumerate(work.batches(batch_rows=MICRO_ROWS)[:MICRO_BATCHES]):
        pq.write_table(pa.Table.from_batches([batch]), files / f"{number:04}.parquet")
    source = spark.readStream.schema(_schema(spark, files)).option("maxFilesPerTrigger", 1).parquet(str(files))
    trigger: dict[str, Any] = {"availableNow": True}

    def into_us(name: str) -> None:
        pks.write_stream(source, url, "bench.s", checkpoint=str(directory / name), trigger=trigger).awaitTermination()

    def into_nothing() -> None:
        writer = source.writeStream.format("noop").option("checkpointLocation", str(directory / "noop"))
        writer.trigger(availableNow=True).start().awaitTermination()

    ours = timed(lambda: into_us("ours"), repeats=1)
    nothing = timed(into_nothing, repeats=1)
    return [
        _measured(
            "micro-batches of 1,000 rows", len(list(files.iterdir())), ours, "into noop", nothing, unit="batches/s"
        )
    ]


def _measured(
    job: str, count: int, ours: Timing, bound_name: str, bound: Timing, *, unit: str = "rows/s"
) -> Measurement:
    return Measurement(job, unit, ours.rate(count), bound_name, bound.rate(count), ours.spread)


def _input(spark: SparkSession, work: Workload, directory: Path) -> DataFrame:
    files = directory / "in"
    files.mkdir()
    batches = work.batches()
    half = len(batches) // 2 or 1
    for number, part in enumerate((batches[:half], batches[half:])):
        pq.write_table(pa.Table.from_batches(part, SCHEMA), files / f"{number}.parquet")
    df = spark.read.parquet(str(files)).cache()
    df.count()
    return df


def _schema(spark: SparkSession, files: Path) -> Any:
    return spark.read.parquet(str(files)).schema


def _delta_merge(work: Workload, directory: Path) -> Timing | None:
    if importlib.util.find_spec("deltalake") is None:
        return None
    deltalake = importlib.import_module("deltalake")

    path = str(directory / "delta")
    rows = pa.Table.from_batches(work.batches())
    deltalake.write_deltalake(path, rows)

    def merge() -> None:
        table = deltalake.DeltaTable(path)
        matched = table.merge(rows, predicate="t.id = s.id", source_alias="s", target_alias="t")
        matched.when_matched_update_all().when_not_matched_insert_all().execute()

    return timed(merge)


def _spark(directory: Path) -> SparkSession:
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
