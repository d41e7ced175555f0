"""Two jobs fill different columns of one wide aggregating table; each owns its own, neither waits for the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from examples.spark_here import run_here
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import penstock
import penstock.spark as pks


def example(spark: SparkSession, url: str, home: Path) -> list[dict[str, Any]]:
    """Count visits and sum payments by user, from two streams at once."""
    with penstock.connect(url) as conn:
        conn.create_database("shop", if_not_exists=True)
        visits = conn.create_table("shop.visits", "at BIGINT, user BIGINT, PRIMARY KEY (at)")
        payments = conn.create_table("shop.payments", "id BIGINT, user BIGINT, paid BIGINT, PRIMARY KEY (id)")
        users = conn.create_table(
            "shop.users", "user BIGINT, visits BIGINT COUNT, paid BIGINT SUM, PRIMARY KEY (user)", buckets=2
        )
        visits.upsert([{"at": n, "user": n % 3} for n in range(30)])
        payments.upsert([{"id": n, "user": n % 3, "paid": 5} for n in range(6)])

        seen = pks.read_stream(spark, url, "shop.visits").select("user", sf.col("at").alias("visits"))
        paid = pks.read_stream(spark, url, "shop.payments").select("user", "paid")
        queries = [
            pks.write_stream(
                df,
                url,
                "shop.users",
                columns=[column],
                checkpoint=str(home / f"users-{column}"),
                trigger={"availableNow": True},
            )
            for column, df in (("visits", seen), ("paid", paid))
        ]
        for query in queries:
            query.awaitTermination()

        rows: list[dict[str, Any]] = users.scan().to_arrow().sort_by("user").to_pylist()
        return rows


if __name__ == "__main__":
    run_here(example)
