"""What a Spark Connect client sees of a table; run as a program of its own, it prints JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

import penstock.spark as pks
from penstock.spark.java import use_java


def main(url: str, table: str) -> None:
    """Read, stream and join the table through Connect."""
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with TemporaryDirectory() as directory:
        spark = (
            SparkSession.builder.remote("local[2,4]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", directory)
            .getOrCreate()
        )
        frame = pks.read(spark, url, table)
        counted = [frame.count(), frame.alias("a").join(frame.alias("b"), "id").count()]
        pks.read_stream(spark, url, table, columns=["id"]).writeStream.format("parquet").options(
            checkpointLocation=str(Path(directory) / "checkpoint"), path=str(Path(directory) / "out")
        ).trigger(availableNow=True).start().awaitTermination(120)
        streamed = spark.read.parquet(str(Path(directory) / "out")).count()
        joined = pks.lookup_join(spark.range(3), url, table, columns=["city"]).where("city IS NOT NULL").count()
        changes = pks.changes(spark, url, table).count()
        print(json.dumps({"counted": counted, "streamed": streamed, "joined": joined, "changes": changes}))
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
