"""A batch write: all or nothing.

The rows of every task are staged under an owner of the job's own and appear at commit, together; a job
that fails leaves nothing. Spark makes the writer on the driver, sends it to the tasks, and commits in a
third process: all three meet in the epoch that the first began.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.client.link.link import Link
from penstock.errors import InvalidError, OwnerNotFoundError, UnsupportedError
from penstock.model.table.merge_engine import DeleteBehavior
from penstock.spark.session.links import link_for, planning_link
from penstock.spark.session.options import Options
from penstock.spark.writing import job_epoch
from penstock.spark.writing.job_epoch import Written
from penstock.spark.writing.task_writer import TaskWriter
from penstock.spark.writing.write_plan import WritePlan, plan_write

EPOCH = 0
"""A batch job has one epoch: its owner is used once."""


@dataclass(frozen=True)
class BatchMessage(WriterCommitMessage):
    """What one task did."""

    written: Written


class BatchWriter(DataSourceArrowWriter):
    """Writes one DataFrame. With `overwrite`, its rows take the place of all that the table has at the commit."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        refuse_order(options)
        link = planning_link(options)
        self._plan = plan_write(options, link, schema)
        if overwrite:
            check_overwrite(self._plan)
        self._owner = options.get("owner") or f"spark-batch-{uuid.uuid4()}"
        grant = job_epoch.acquire(link, self._plan, self._owner, self._owner)
        self._epoch = job_epoch.begin(link, grant, EPOCH)
        self._overwrite = overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchMessage:
        """Stage the rows of one task."""
        return BatchMessage(TaskWriter(self._plan, self._epoch, staged=True).write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Let the rows of all tasks appear."""
        link = link_for(self._plan.options)
        job_epoch.commit(link, self._plan, self._epoch, written_in(messages), replaces=self._overwrite)
        forget_owner(link, self._plan, self._owner)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop the rows of all tasks."""
        forget_owner(link_for(self._plan.options), self._plan, self._owner)


def written_in(messages: Iterable[WriterCommitMessage | None]) -> list[Written]:
    """Return what the tasks say they wrote."""
    return [message.written for message in messages if isinstance(message, BatchMessage)]


def refuse_order(options: Options) -> None:
    """Refuse an order that would not be kept: here rows are written by the tasks that have them.

    Raises:
        InvalidError: the message says what to call instead.
    """
    if options.is_set("order_by"):
        raise InvalidError(
            "only rows in one task can be ordered; use pks.write or pks.write_stream, which bring them together",
            order_by=options.get("order_by"),
        )


def forget_owner(link: Link, plan: WritePlan, owner: str) -> None:
    """Drop a job's owner; what it did not commit is dropped with it."""
    # Not there: this was asked before, and the answer was lost.
    with contextlib.suppress(OwnerNotFoundError):
        link.retry.run(lambda: link.node.owners.drop(plan.info.table_id, owner, undo=True))


def check_overwrite(plan: WritePlan) -> None:
    """Refuse to replace the contents of a table that deletes nothing.

    Raises:
        UnsupportedError: it is one; the message says what to set.
    """
    if not plan.info.keyed:
        raise UnsupportedError(
            "the rows of a log table stay until their time is up; to begin anew, drop the table and create it again",
            table=plan.info.path,
        )
    if plan.info.options.delete_behavior is not DeleteBehavior.ALLOW:
        raise UnsupportedError(
            "overwrite deletes rows, and the table does not allow that; set delete.behavior=allow, or create it anew",
            table=plan.info.path,
        )
