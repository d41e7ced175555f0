"""A Spark Connect client, run as a program of its own: what it does is named on its command line.

`read` prints as JSON what it sees of a table; `write` fills a table; `stream` follows files into a table; `help` uses
all other functions and prints what they did.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from urllib.parse import quote

import pyspark
from pyspark.sql import DataFrame, SparkSession

import penstock.spark as pks
from penstock.spark.session.java import use_java

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


def use_helpers(spark: SparkSession, url: str, table: str, home: Path) -> None:
    """Create a table, fill it through a sink of our own from what another table has, and print how that went."""
    sums = f"{table}_by_city"
    pks.create_table(
        spark.createDataFrame([], "city string, n bigint"), url, sums, primary_key="city", agg={"n": "sum"}
    )
    checkpoint = str(home / "sink-checkpoint")
    sink = pks.sink(url, sums, checkpoint=checkpoint, agg_mode="merge_state")

    def fold(df: DataFrame, batch_id: int) -> None:
        sink(pks.pre_aggregate(df.selectExpr("city", "1L AS n"), url, sums), batch_id)

    cut = pks.cut(url, table)
    rows = pks.read_stream(spark, url, table, starting="earliest", max_rows_per_trigger=500)
    query = rows.where("_change_type = '+I'").writeStream.foreachBatch(fold)
    ran = query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    ran.awaitTermination(120)
    progress = pks.progress(ran)
    assert progress is not None
    pks.views(spark, url, table.partition(".")[0])
    total = spark.sql(f"SELECT sum(n) AS n FROM {sums.partition('.')[2]}").collect()[0].n
    placed = pks.to_buckets(spark.range(50), url, table)
    found = {
        "total": total,
        "behind": progress.rows_behind_total,
        "rows": progress.rows,
        "placed": placed.count(),
        "since": pks.changes(spark, url, table, start=cut).count(),
        "then": pks.read(spark, url, table, as_of=cut).count(),
    }
    print(json.dumps(found), flush=True)


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
    if quote(pyspark.__file__) != pyspark.__file__:
        pks.register(spark)  # under such a path Spark finds no format by itself
    for step in steps:
        name, _, table = step.partition("=")
        if name == "read":
            read(spark, url, table, home)
        elif name == "write":
            write(spark, url, table)
        elif name == "help":
            use_helpers(spark, url, table, home)
        else:
            stream(spark, url, table, home)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
