"""Micro-batches of a plain `writeStream.format("penstock")`: staged, visible at commit, each once.

Spark makes this object twice for each micro-batch: in a process that plans it, pickled from there to
the tasks; and in another that commits it. Only the first may begin the epoch, for to begin is to undo
what an earlier try left. So it begins when it is pickled, and the tasks' messages carry the epoch to
the process that commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.errors import ConflictError, InvalidError, UnsupportedError
from penstock.spark.session.links import link_for
from penstock.spark.session.options import Options
from penstock.spark.session.query_id import BATCH_ID, query_of
from penstock.spark.writing import job_epoch
from penstock.spark.writing.batch_writer import refuse_order
from penstock.spark.writing.job_epoch import JobEpoch, Written
from penstock.spark.writing.task_writer import TaskWriter
from penstock.spark.writing.write_plan import WritePlan, plan_write


@dataclass(frozen=True)
class StreamMessage(WriterCommitMessage):
    """What one task did, and in which epoch."""

    written: Written
    plan: WritePlan
    epoch: JobEpoch


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of one query."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        refuse_order(options)
        if overwrite:
            raise UnsupportedError('a stream does not replace a table; use outputMode("append")')
        if options.get("visibility") not in {None, "commit"}:
            raise InvalidError("a plain writeStream is visible at commit; use pks.write_stream for immediate")
        self._options = options
        self._schema = schema
        self._task: TaskWriter | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._task is None:
            self._task = self._begin()
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamMessage:
        """Stage the rows of one task; if the micro-batch is committed already, only use them up."""
        task = self._task
        assert task is not None, "it was pickled to get here"
        _check_batch(task.epoch)
        if task.epoch.committed:
            for _ in iterator:
                pass  # Operators with state must see the whole micro-batch, or the query ends
            return StreamMessage(Written(b"", 0), task.plan, task.epoch)
        return StreamMessage(task.write(iterator), task.plan, task.epoch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Let the rows of all tasks appear."""
        done = [message for message in messages if isinstance(message, StreamMessage)]
        if done and not done[0].epoch.committed:
            plan, epoch = done[0].plan, done[0].epoch
            _check_same(epoch, batchId)
            job_epoch.commit(link_for(plan.options), plan, epoch, (message.written for message in done))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Drop the rows of all tasks."""
        done = [message for message in messages if isinstance(message, StreamMessage)]
        if done and not done[0].epoch.committed:
            job_epoch.undo(link_for(self._options), done[0].epoch.session)

    def _begin(self) -> TaskWriter:
        checkpoint = self._options.get("checkpoint")
        if checkpoint is None:
            raise InvalidError("say where the checkpoint is: .option('checkpointLocation', ...) on the stream itself")
        link = link_for(self._options)
        plan = plan_write(self._options, link, self._schema)
        query, batch = query_of(checkpoint)
        grant = job_epoch.acquire_for_query(link, plan, query, batch)
        return TaskWriter(plan, job_epoch.begin(link, grant, batch), staged=True)


def _check_batch(epoch: JobEpoch) -> None:
    context = TaskContext.get()
    running = None if context is None else context.getLocalProperty(BATCH_ID)
    if running:
        _check_same(epoch, int(running))


def _check_same(epoch: JobEpoch, batch: int) -> None:
    if epoch.epoch != batch:
        raise ConflictError(
            "the checkpoint named another micro-batch than the one that runs; use pks.write_stream",
            named=epoch.epoch,
            runs=batch,
        )
