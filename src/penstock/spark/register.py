"""Registering the data source with a session."""

from __future__ import annotations

import importlib.util

from pyspark.sql import SparkSession

from penstock.spark.source import PenstockDataSource
from penstock.spark.worker_python import check_worker_python


def register(spark: SparkSession) -> None:
    """Make the format `penstock` known to a session; not needed where the module `pyspark_penstock` is installed.

    Raises:
        InvalidError: Spark's workers run a Python without penstock; the message says what to set.
    """
    check_worker_python(spark)
    spark.dataSource.register(PenstockDataSource)


def ensure_registered(spark: SparkSession) -> None:
    """Register the format unless Spark finds it by itself: it warns of a format that is registered twice.

    Raises:
        InvalidError: Spark's workers run a Python without penstock; the message says what to set.
    """
    if importlib.util.find_spec("pyspark_penstock") is None:
        register(spark)
    else:
        check_worker_python(spark)
