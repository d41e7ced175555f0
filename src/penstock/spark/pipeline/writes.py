"""A DataFrame into a table, as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame

from penstock.model.node.calls import Operation, OperationLike
from penstock.model.schema.agg_mode import AggModeLike
from penstock.spark.session.links import planning_link
from penstock.spark.session.options import Options
from penstock.spark.session.query_id import local_context
from penstock.spark.session.worker_python import check_worker_python
from penstock.spark.sources.registration import ensure_registered, with_format
from penstock.spark.sources.source import PenstockDataSource
from penstock.spark.writing.batch_job import write_batch
from penstock.spark.writing.bucket_shuffle import place
from penstock.spark.writing.mapped_write import sent_rows
from penstock.spark.writing.write_options import write_options
from penstock.spark.writing.write_plan import plan_write


def write(
    df: DataFrame,
    url: str | None,
    table: str,
    *,
    operation: OperationLike | None = None,
    columns: Iterable[str] | None = None,
    agg_mode: AggModeLike | None = None,
    order_by: str | Iterable[str] | None = None,
    overwrite: bool = False,
    **options: Any,
) -> None:
    """Write a DataFrame as a whole: its rows appear together when the job is done, or not at all.

    Rows of one key are written in the order of `order_by`; without it, which of them is last is undefined.

    Raises:
        InvalidError: options, table and data do not go together, or Spark's workers lack penstock.
        SchemaMismatchError: the data does not fit the table; names the column.
        LockedError: another owner holds the columns.
    """
    checked = write_options(
        url, table, operation=operation, columns=columns, agg_mode=agg_mode, order_by=order_by, others=options
    )
    if local_context(df.sparkSession) is not None:
        check_worker_python(df.sparkSession)
        write_batch(df, checked, overwrite=overwrite)
        return
    # Through Connect: the machine of the program need not reach the server that Spark reaches.
    ensure_registered(df.sparkSession)
    if checked.is_set("order_by") or checked.get("operation") == Operation.APPLY:
        plan = plan_write(checked, planning_link(checked), df.schema)
        df = sent_rows(place(df, plan), plan)
        checked = Options({name: text for name, text in checked.for_spark().items() if name != "orderBy"})
    writer = df.write.format(PenstockDataSource.name()).options(**checked.for_spark())
    writer = writer.mode("overwrite" if overwrite else "append")
    with_format(df.sparkSession, writer.save)
