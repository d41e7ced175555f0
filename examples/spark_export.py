"""Export a table to Parquet as of one cut, and later only what changed since, which makes the same table."""

from __future__ import annotations

from pathlib import Path

from examples.spark_here import run_here
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

import penstock
import penstock.spark as pks


def merged(base: DataFrame, changes: DataFrame, key: str) -> DataFrame:
    """Return the rows of an export with the changes since put in: the newest change of each key, if it left a row."""
    newest = Window.partitionBy(key).orderBy(sf.col("_offset").desc())
    last = (
        changes.where("_change_type <> '-U'")
        .withColumn("nth", sf.row_number().over(newest))
        .where("nth = 1")
        .drop("nth")
    )
    untouched = base.join(last.select(key), key, "left_anti")
    return untouched.unionByName(last.where("_change_type <> '-D'").select(base.columns))


def example(spark: SparkSession, url: str, home: Path) -> bool:
    """Export, change the table, load the difference; tell whether both are equal."""
    with penstock.connect(url) as conn:
        conn.create_database("shop", if_not_exists=True)
        stock = conn.create_table("shop.stock", "id BIGINT, pieces BIGINT, PRIMARY KEY (id)", buckets=2)
        stock.upsert([{"id": n, "pieces": n} for n in range(500)])

        cut = pks.cut(url, "shop.stock")
        pks.read(spark, url, "shop.stock", as_of=cut).write.parquet(str(home / "stock"))

        stock.upsert([{"id": n, "pieces": 0} for n in range(400, 600)])
        stock.delete([{"id": n} for n in range(10)])
        since = pks.changes(spark, url, "shop.stock", start=cut)
        merged(spark.read.parquet(str(home / "stock")), since, "id").write.parquet(str(home / "stock-now"))

        exported = {row.id: row.pieces for row in spark.read.parquet(str(home / "stock-now")).collect()}
        return exported == {row["id"]: row["pieces"] for row in stock.scan().to_arrow().to_pylist()}


if __name__ == "__main__":
    run_here(example)
