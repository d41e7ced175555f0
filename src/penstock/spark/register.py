"""Registering the data source with a session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.spark.source import PenstockDataSource


def register(spark: SparkSession) -> None:
    """Make the format `penstock` known to a session; not needed where the module `pyspark_penstock` is installed."""
    spark.dataSource.register(PenstockDataSource)
