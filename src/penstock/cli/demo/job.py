"""The demo's pipeline, a Spark program: follow the orders, fold them into the revenue of each city and day."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import penstock.spark as pks
from penstock.cli.demo.shop import ORDERS, REVENUE

POLL_SECONDS: Final = 0.1
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    # For a run of a minute on a small machine: start fast rather than run fast.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # On a local disk this one renames; the default costs a fifth of a second more in each micro-batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def run(spark: SparkSession, url: str, checkpoint: str, batch_rows: int, finish: Path) -> None:
    """Run until the file `finish` appears; then read what there is, and end."""
    changes = pks.read_stream(spark, url, ORDERS, starting="snapshot", max_rows_per_trigger=batch_rows)
    query = pks.write_stream(
        changes.select(
            "city", "day", sf.col("amount").alias("revenue"), sf.lit(1).alias("orders"), "_change_type", "_offset"
        ),
        url,
        REVENUE,
        operation="apply",  # +I and +U are added, -U and -D are taken back
        checkpoint=checkpoint,
        query_name="revenue_by_city",
    )
    told = -1
    while query.isActive and not finish.exists():
        time.sleep(POLL_SECONDS)
        progress = query.lastProgress
        if progress is not None and progress.batchId != told:
            told = progress.batchId
            print(progress.json, flush=True)
    if query.isActive:
        query.processAllAvailable()
        query.stop()
    query.awaitTermination()


def session(scratch: Path) -> SparkSession:
    """Return a Spark in this process that leaves nothing outside the directory `scratch`."""
    builder = SparkSession.builder.master("local[2,4]").appName("penstock-demo")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.local.dir", str(scratch / "local"))
    return builder.config("spark.sql.warehouse.dir", str(scratch / "warehouse")).getOrCreate()


def main() -> None:
    """Run the job of this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--batch-rows", type=int, required=True)
    parser.add_argument("--finish", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    given = parser.parse_args()
    spark = session(given.scratch)
    run(spark, given.url, given.checkpoint, given.batch_rows, given.finish)
    spark.stop()


if __name__ == "__main__":
    main()
