"""The cut at which a task reads: one for all tasks of an execution, whatever the plan was made for.

Spark plans a relation once and runs the plan for as long as it is held: a temp view, a cached
DataFrame, the static side of a stream. A cut in the plan would be yesterday's. So a task asks the server
for the cut under the name of its execution, and the first task to ask fixes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark import TaskContext

from penstock.client.changes.range import decode_position
from penstock.client.cut.as_of import is_moment_text, moment_ms
from penstock.client.cut.cut_pin import CutPin
from penstock.client.link.link import Link
from penstock.errors import InvalidError
from penstock.model.place.bucket import TableBucket
from penstock.model.table.table import TableInfo

CUT_TTL_MS: Final = 3_600_000
"""How long a cut is kept after the last task asked for it."""


def as_of_offsets(link: Link, info: TableInfo, text: str) -> dict[TableBucket, int]:
    """Return the cut that a user named, as `pks.cut` writes it, or by a moment: all tasks find the same one for it.

    Raises:
        InvalidError: the text is neither a cut of this table nor a moment that names its zone.
        OffsetOutOfRangeError: the moment is before the oldest that is kept.
        PartitionNotFoundError: a partition went since the moment.
    """
    if is_moment_text(text):
        if not text.strip()[:1].isdigit():
            raise InvalidError(
                "a cut is the JSON that pks.cut returns, unchanged, or a moment such as 2026-01-31T12:00:00Z",
                found=text,
            )
        pin = CutPin.take(link, info.table_id, timestamp_ms=moment_ms(text))
        pin.release()
        return dict(pin.offsets)
    return decode_position(link, info, text).bucket_offsets(info.path)


def check_there(link: Link, info: TableInfo, cut: Mapping[TableBucket, int]) -> None:
    """Refuse a cut of the whole table that names what is not there, or leaves out what was.

    Raises:
        InvalidError: it leaves a bucket out.
        PartitionNotFoundError: a partition does not exist (any more).
        OffsetOutOfRangeError: it is older than what is kept, or not yet written.
    """
    CutPin.take(link, info.table_id, as_of=cut).release()


def execution_name(plan_id: str) -> str:
    """Return the name of the execution that this task belongs to; the plan's where there is none."""
    context = TaskContext.get()
    execution = context.getLocalProperty("spark.sql.execution.root.id") if context is not None else None
    if context is None or execution is None:
        return f"spark-plan/{plan_id}"
    return f"spark/{context.getLocalProperty('spark.app.id')}/{execution}"


def execution_cut(link: Link, info: TableInfo, plan_id: str) -> Mapping[TableBucket, int]:
    """Return the cut of the execution that this task belongs to.

    Raises:
        OffsetOutOfRangeError: it was fixed, but can no longer be read.
        TableNotFoundError: the table was dropped.
    """
    name = execution_name(plan_id)
    return link.retry.run(lambda: link.node.scan.named_cut(info.table_id, name, CUT_TTL_MS)).offsets
