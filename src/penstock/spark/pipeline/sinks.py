"""Streams into tables: each micro-batch exactly once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import InvalidError
from penstock.model.node.calls import OperationLike
from penstock.model.schema.agg_mode import AggModeLike
from penstock.spark.session.query_id import local_context
from penstock.spark.session.worker_python import check_worker_python
from penstock.spark.writing.stream_sink import StreamSink, refuse_early
from penstock.spark.writing.write_options import write_options
from penstock.spark.writing.write_query import WriteQuery


def write_stream(
    df: DataFrame,
    url: str | None,
    table: str,
    *,
    checkpoint: str,
    operation: OperationLike | None = None,
    columns: Iterable[str] | None = None,
    agg_mode: AggModeLike | None = None,
    order_by: str | Iterable[str] | None = None,
    owner: str | None = None,
    visibility: str | None = None,
    output_mode: str = "append",
    query_name: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    **options: Any,
) -> StreamingQuery:
    """Start a query that writes each micro-batch exactly once.

    `visibility` is "immediate" (rows are visible while a micro-batch runs, and taken back if it fails) or
    "commit" (rows appear when it is committed); without it, a table with a primary key has the first, a
    log table the second. `trigger` is what `DataStreamWriter.trigger` takes: {"availableNow": True}.

    Raises:
        InvalidError: options, table and data do not go together, or Spark's workers lack penstock.
        SchemaMismatchError: the data does not fit the table; names the column.
        TableNotFoundError: there is no such table.
    """
    if not checkpoint:
        raise InvalidError("a query is known by its checkpoint: without one it would write all again; pass checkpoint=")
    check_worker_python(df.sparkSession)
    others = {"owner": owner, "visibility": visibility, "checkpoint": checkpoint, "query_name": query_name} | options
    given = write_options(
        url, table, operation=operation, columns=columns, agg_mode=agg_mode, order_by=order_by, others=others
    )
    if local_context(df.sparkSession) is not None:
        refuse_early(given, df)
    function = StreamSink(given, lasting=True)
    writer = df.writeStream.foreachBatch(function).outputMode(output_mode).option("checkpointLocation", checkpoint)
    writer = writer if query_name is None else writer.queryName(query_name)
    writer = writer if trigger is None else writer.trigger(**trigger)
    if local_context(df.sparkSession) is None:
        # Through Connect the function lives in a process that ends with its query, and the owner with its time.
        return writer.start()
    query = writer.start()
    _release_at_end(query, function)
    return WriteQuery(query)


def sink(
    url: str | None,
    table: str,
    *,
    operation: OperationLike | None = None,
    columns: Iterable[str] | None = None,
    agg_mode: AggModeLike | None = None,
    order_by: str | Iterable[str] | None = None,
    **options: Any,
) -> StreamSink:
    """Return a function for `foreachBatch` that writes each micro-batch exactly once; one for each query.

    Raises:
        InvalidError: an option is not understood.
    """
    return StreamSink(
        write_options(
            url, table, operation=operation, columns=columns, agg_mode=agg_mode, order_by=order_by, others=options
        )
    )


def _release_at_end(query: StreamingQuery, sink: StreamSink) -> None:
    """Give the owner back when this run of the query ends, however it ends.

    By a thread that waits for it: a listener in Python is told of every micro-batch too, field by field.
    """

    def wait() -> None:
        # Why it failed is for the holder of the query; Spark itself may be gone.
        with suppress(PySparkException, Py4JError, OSError):
            query.awaitTermination()
        sink.release()

    threading.Thread(target=wait, name=f"penstock-release-{query.runId}", daemon=True).start()
