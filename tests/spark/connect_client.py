"""A Spark Connect client, run as a program of its own: what it does is named on its command line.

`read` prints as JSON what it sees of a table; `write` fills a table; `stream` follows files into a table.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import penstock.spark as pks
from penstock.spark.java import use_java

ROWS = "k bigint, total bigint, n bigint"


def read(spark: SparkSession, url: str, table: str, home: Path) -> None:
    """Read, stream and join the table, and print what was seen."""
    frame = pks.read(spark, url, table)
    counted = [frame.count(), frame.alias("a").join(frame.alias("b"), "id").count()]
    pks.read_stream(spark, url, table, columns=["id"]).writeStream.format("parquet").options(
        checkpointLocation=str(home / "read-checkpoint"), path=str(home / "out")
    ).trigger(availableNow=True).start().awaitTermination(120)
    streamed = spark.read.parquet(str(home / "out")).count()
    joined = pks.lookup_join(spark.range(3), url, table, columns=["city"]).where("city IS NOT NULL").count()
    changes = pks.changes(spark, url, table).count()
    print(json.dumps({"counted": counted, "streamed": streamed, "joined": joined, "changes": changes}), flush=True)


def write(spark: SparkSession, url: str, table: str) -> None:
    """Write rows as a whole, in an order, and by the plain format."""
    rows = spark.range(1000).selectExpr("id % 100 AS k", "id AS total", "1L AS n")
    pks.write(rows, url, table, order_by="total")
    more = spark.range(1).selectExpr("100L AS k", "7L AS total", "1L AS n")
    more.write.format("penstock").options(url=url, table=table).mode("append").save()


def stream(spark: SparkSession, url: str, table: str, home: Path) -> None:
    """Write a file of rows in each micro-batch, until all are written."""
    files = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(str(home / "files"))
    query = pks.write_stream(files, url, table, checkpoint=str(home / "checkpoint"), trigger={"availableNow": True})
    query.awaitTermination()


def main(url: str, home: Path, steps: list[str]) -> None:
    """Do each step, which is its name and a table: read=shop.orders."""
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.remote("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
        .getOrCreate()
    )
    for step in steps:
        name, _, table = step.partition("=")
        if name == "read":
            read(spark, url, table, home)
        elif name == "write":
            write(spark, url, table)
        else:
            stream(spark, url, table, home)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
