"""Registering the data source with a session."""

from __future__ import annotations

import importlib.util

from pyspark.sql import SparkSession

from penstock.spark.source import PenstockDataSource


def register(spark: SparkSession) -> None:
    """Make the format `penstock` known to a session; not needed where the module `pyspark_penstock` is installed."""
    spark.dataSource.register(PenstockDataSource)


def ensure_registered(spark: SparkSession) -> None:
    """Register the format unless Spark finds it by itself: it warns of a format that is registered twice."""
    if importlib.util.find_spec("pyspark_penstock") is None:
        register(spark)
