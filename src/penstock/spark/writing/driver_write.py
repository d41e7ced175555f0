"""A few rows, written by the driver itself: Spark hands them over as Arrow, and no Python worker is needed.

A round trip through the workers is most of what a small job takes. How few are few is Spark's own measure for
what it sends whole to every executor, `spark.sql.autoBroadcastJoinThreshold`: it too collects them on the driver.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType, StructType

from penstock.spark.writing.job_epoch import JobEpoch, Written
from penstock.spark.writing.task_writer import TaskWriter
from penstock.spark.writing.write_plan import WritePlan

_MULTIPLIES: Final = re.compile("Generate|MapIn|MapPartitions|MapGroups|CoGroup|FlatMap|Script|Python|Expand")
"""Operators out of which more rows may come than went in, of which Spark's estimate knows nothing."""


def is_few(rows: DataFrame) -> bool:
    """Tell whether Spark expects so few rows that the driver may have them, without running anything."""
    # Spark's own way to Arrow cannot carry a null struct whose field is never null.
    if any(isinstance(field.dataType, ArrayType | MapType | StructType) for field in rows.schema):
        return False
    most = rows.sparkSession._jsparkSession.sessionState().conf().autoBroadcastJoinThreshold()
    plan = rows._jdf.queryExecution().optimizedPlan()
    if plan.stats().sizeInBytes() > most:
        return False
    return _MULTIPLIES.search(plan.toString()) is None


def write_here(rows: DataFrame, plan: WritePlan, epoch: JobEpoch) -> list[Written]:
    """Stage rows in an epoch from this process; return what was written.

    Raises:
        PySparkException: a task that makes the rows failed more often than Spark tries again.
        PenstockError: what the server refused, or that it is away for longer than `retryTimeout`.
    """
    return [TaskWriter(plan, epoch, staged=True).write(rows.toArrow().to_batches())]
