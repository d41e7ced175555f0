"""Keep a copy of a table: its rows, then every change, applied in the order in which they were made.

A query that is stopped, or whose driver dies, goes on where it was: each change arrives exactly once.
"""

from __future__ import annotations

from pathlib import Path

from examples.spark_here import run_here
from pyspark.sql import SparkSession

import penstock
import penstock.spark as pks


def replicate(spark: SparkSession, url: str, source: str, target: str, checkpoint: Path) -> None:
    """Bring the copy up to date: once; without the trigger the query would follow for ever."""
    changes = pks.read_stream(spark, url, source, starting="snapshot", max_rows_per_trigger=100_000)
    query = pks.write_stream(
        changes, url, target, operation="apply", checkpoint=str(checkpoint), trigger={"availableNow": True}
    )
    query.awaitTermination()


def example(spark: SparkSession, url: str, home: Path) -> bool:
    """Copy a table while it changes between two runs; tell whether the copy is equal."""
    columns = "id BIGINT, city STRING, amount DOUBLE, PRIMARY KEY (id)"
    with penstock.connect(url) as conn:
        conn.create_database("shop", if_not_exists=True)
        orders = conn.create_table("shop.orders_here", columns, buckets=2)
        copy = conn.create_table("shop.orders_there", columns, buckets=3)
        orders.upsert([{"id": n, "city": f"c{n % 5}", "amount": float(n)} for n in range(1000)])

        replicate(spark, url, "shop.orders_here", "shop.orders_there", home / "replicate")
        orders.upsert([{"id": n, "city": "moved", "amount": 0.0} for n in range(0, 1000, 10)])
        orders.delete([{"id": n} for n in range(0, 1000, 7)])
        replicate(spark, url, "shop.orders_here", "shop.orders_there", home / "replicate")

        there, here = (table.scan().to_arrow().sort_by("id") for table in (copy, orders))
        return bool(there.equals(here))


if __name__ == "__main__":
    run_here(example)
