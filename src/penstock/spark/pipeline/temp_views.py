"""A database's tables as temporary views, for SQL."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.pipeline.reads import relation
from penstock.spark.session.column_name import quoted
from penstock.spark.session.links import planning_link
from penstock.spark.session.options import Options


def views(spark: SparkSession, url: str | None, database: str, **options: Any) -> list[str]:
    """Create a temporary view for each table of a database, under the table's name; return the names.

    Every query over a view reads the present; the tables of one query are each read at one cut. In SQL a
    name with a hyphen stands in backticks.

    Raises:
        DatabaseNotFoundError: there is no such database.
    """
    link = planning_link(Options({"url": url} | options))
    names = link.retry.run(lambda: link.node.catalog.list_tables(database))
    for name in names:
        relation(spark, url, f"{database}.{name}", **options).createOrReplaceTempView(quoted(name))
    return names
