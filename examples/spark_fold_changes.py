"""Fold the changes of a table into sums that follow it: updates and deletes take back what they replace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from examples.spark_here import run_here
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import penstock
import penstock.spark as pks


def fold(spark: SparkSession, url: str, checkpoint: Path) -> None:
    """Bring revenue by city up to date. An order that moves leaves one city and enters another."""
    changes = pks.read_stream(spark, url, "shop.sold", images="full")
    by_city = changes.select("city", "amount", sf.lit(1).cast("bigint").alias("orders"), "_change_type", "_offset")
    pks.write_stream(
        by_city,
        url,
        "shop.sold_by_city",
        operation="apply",
        checkpoint=str(checkpoint),
        trigger={"availableNow": True},
    ).awaitTermination()


def example(spark: SparkSession, url: str, home: Path) -> list[dict[str, Any]]:
    """Sell, change minds, and return what each city has bought."""
    with penstock.connect(url) as conn:
        conn.create_database("shop", if_not_exists=True)
        sold = conn.create_table("shop.sold", "id BIGINT, city STRING, amount BIGINT, PRIMARY KEY (id)", buckets=2)
        sums = conn.create_table(
            "shop.sold_by_city",
            "city STRING, amount BIGINT SUM, orders BIGINT COUNT, PRIMARY KEY (city)",
            buckets=2,
            properties={"aggregate.delete-at-zero": "orders"},
        )
        sold.upsert([{"id": n, "city": "Ulm" if n % 2 else "Bonn", "amount": 10} for n in range(10)])
        fold(spark, url, home / "fold")
        sold.upsert([{"id": 1, "city": "Kiel", "amount": 25}])
        sold.delete([{"id": n} for n in range(0, 10, 2)])
        fold(spark, url, home / "fold")

        rows: list[dict[str, Any]] = sums.scan().to_arrow().sort_by("city").to_pylist()
        return rows


if __name__ == "__main__":
    run_here(example)
