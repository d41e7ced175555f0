"""Streams into tables: each micro-batch exactly once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager

from penstock.spark.query_id import local_context
from penstock.spark.stream_sink import StreamSink
from penstock.spark.worker_python import check_worker_python
from penstock.spark.write_options import write_options


def write_stream(
    df: DataFrame,
    url: str | None,
    table: str,
    *,
    checkpoint: str,
    operation: str | None = None,
    columns: Iterable[str] | None = None,
    agg_mode: str | None = None,
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
        InvalidError: an option is not understood, or Spark's workers lack penstock.
    """
    check_worker_python(df.sparkSession)
    others = {"owner": owner, "visibility": visibility, "checkpoint": checkpoint, "query_name": query_name} | options
    given = write_options(
        url, table, operation=operation, columns=columns, agg_mode=agg_mode, order_by=order_by, others=others
    )
    function = StreamSink(given, lasting=True)
    writer = df.writeStream.foreachBatch(function).outputMode(output_mode).option("checkpointLocation", checkpoint)
    writer = writer if query_name is None else writer.queryName(query_name)
    writer = writer if trigger is None else writer.trigger(**trigger)
    if local_context(df) is None:
        # Through Connect the function lives in a process that ends with its query, and the owner with its time.
        return writer.start()
    streams = df.sparkSession.streams
    releasing = _Releasing(function, streams)
    streams.addListener(releasing)
    query = writer.start()
    releasing.watch(str(query.runId))
    return query


def sink(
    url: str | None,
    table: str,
    *,
    operation: str | None = None,
    columns: Iterable[str] | None = None,
    agg_mode: str | None = None,
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


class _Releasing(StreamingQueryListener):
    """Gives the owner back when its run of the query ends, however it ends.

    A restarted query has the id of the run before, whose end may be told late: only the run's own id counts.
    """

    def __init__(self, sink: StreamSink, streams: StreamingQueryManager) -> None:
        self._sink = sink
        self._streams = streams
        self._lock = threading.Lock()
        self._run: str | None = None
        self._ended: set[str] = set()

    def watch(self, run: str) -> None:
        """Say which run it is; it may have ended already."""
        with self._lock:
            self._run = run
            ended = run in self._ended
        if ended:
            self._release()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Release the owner, if it is this run that ended."""
        with self._lock:
            self._ended.add(str(event.runId))
            mine = str(event.runId) == self._run
        if mine:
            self._release()

    def _release(self) -> None:
        self._sink.release()
        self._streams.removeListener(self)
