"""Backfill a new table from a large one under a lease, then follow the stream from exactly there.

The lease keeps the cut readable however long the backfill takes; writers go on meanwhile.
"""

from __future__ import annotations

from pathlib import Path

from examples.spark_here import run_here
from pyspark.sql import SparkSession

import penstock
import penstock.spark as pks


def example(spark: SparkSession, url: str, home: Path) -> bool:
    """Fill a table at a cut, follow the log from it, and tell whether both tables are equal."""
    columns = "id BIGINT, name STRING, PRIMARY KEY (id)"
    with penstock.connect(url) as conn:
        conn.create_database("shop", if_not_exists=True)
        large = conn.create_table("shop.large", columns, buckets=2)
        filled = conn.create_table("shop.filled", columns, buckets=4)
        large.upsert([{"id": n, "name": f"n{n}"} for n in range(2000)])

        # The lease first: what it holds is as old as the cut, or older.
        with conn.acquire_lease("backfill-of-filled", large.cut(), duration="1h", auto_renew=True):
            cut = pks.cut(url, "shop.large")
            large.upsert([{"id": n, "name": "changed"} for n in range(0, 2000, 3)])
            pks.write(pks.read(spark, url, "shop.large", as_of=cut), url, "shop.filled")
            large.delete([{"id": n} for n in range(0, 2000, 100)])
            follow = pks.read_stream(spark, url, "shop.large", starting=cut)
            pks.write_stream(
                follow,
                url,
                "shop.filled",
                operation="apply",
                checkpoint=str(home / "backfill"),
                trigger={"availableNow": True},
            ).awaitTermination()

        there, here = (table.scan().to_arrow().sort_by("id") for table in (filled, large))
        return bool(there.equals(here))


if __name__ == "__main__":
    run_here(example)
