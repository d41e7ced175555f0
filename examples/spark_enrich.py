"""Enrich rows with a table: by a join at one cut, or by lookups that see the present."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from examples.spark_here import run_here
from pyspark.sql import SparkSession

import penstock
import penstock.spark as pks


def example(spark: SparkSession, url: str, home: Path) -> dict[str, list[dict[str, Any]]]:
    """Give clicks the names of their users, both ways."""
    with penstock.connect(url) as conn:
        conn.create_database("shop", if_not_exists=True)
        people = conn.create_table("shop.people", "id BIGINT, name STRING, PRIMARY KEY (id)", buckets=2)
        people.upsert([{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bo"}])

    clicks = spark.createDataFrame([(1, "home"), (2, "cart"), (3, "home")], "id bigint, page string")
    # Every row of the table once, as of one moment: right for large joins, and for what must be repeatable.
    at_a_cut = clicks.join(pks.read(spark, url, "shop.people"), "id", "left")
    # Only the keys that pass, as they are when they pass: right for few keys in a large table.
    as_they_pass = pks.lookup_join(clicks, url, "shop.people", columns=["name"])
    return {
        "cut": [row.asDict() for row in at_a_cut.select("id", "page", "name").orderBy("id").collect()],
        "lookup": [row.asDict() for row in as_they_pass.select("id", "page", "name").orderBy("id").collect()],
    }


if __name__ == "__main__":
    run_here(example)
