"""Registering the data source with a session."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Final, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.spark.session.worker_python import check_worker_python
from penstock.spark.sources.source import PenstockDataSource

T = TypeVar("T")

_UNKNOWN: Final = "[DATA_SOURCE_NOT_FOUND]"


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


def with_format(spark: SparkSession, use: Callable[[], T]) -> T:
    """Return what a use of the format gives; where Spark does not know the format, register it and use it again.

    Spark looks for such packages once. If that fails, by any broken package or a worker that was killed,
    it knows none of them from then on.
    """
    try:
        return use()
    except (PySparkException, Py4JError) as error:
        if _UNKNOWN not in str(error):
            raise
    register(spark)
    return use()
