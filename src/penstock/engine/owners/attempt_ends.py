"""The end of an attempt: the first to end wins, and the log says so in every bucket it wrote."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.engine.commit.group import OwnerStamp, QueuedWrite
from penstock.engine.owners.admission import OwnerAdmission
from penstock.engine.table.open_table import OpenTable
from penstock.errors import ConflictError, FencedError, InvalidError
from penstock.model.node.owner import AttemptEnd
from penstock.model.node.owner_token import OwnerToken
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import BatchKind
from penstock.model.place.facts import NO_ID
from penstock.tablet.merge.rule import Request
from penstock.tablet.schema import TabletSchema
from penstock.tablet.state.owner_state import AttemptRun


def end_attempt(table: OpenTable, guard: OwnerAdmission, token: OwnerToken, attempt: bytes, rows: int) -> AttemptEnd:
    """End an attempt wherever it wrote, unless another ended first; say who won.

    Raises:
        FencedError: a newer attempt, or a newer holder, has taken over.
        ConflictError: not as many rows arrived as it says.
    """
    guard.require_epoch(token)
    if attempt == NO_ID:
        raise InvalidError("an attempt has a uuid; pass attempt=")
    stamp = OwnerStamp(token.number, token.fence, token.epoch, attempt)
    return table.committer.run(lambda: _end(table, guard, stamp, rows))


def _end(table: OpenTable, guard: OwnerAdmission, stamp: OwnerStamp, rows: int) -> AttemptEnd:
    guard.check_write(stamp)
    runs = {
        bucket: tablet.state.owners.run(stamp.owner, stamp.fence) for bucket, tablet in table.committer.tablets.items()
    }
    mine = {bucket: run for bucket, run in runs.items() if stamp.attempt in run.opened}
    ended = {run.ended: run.ended_rows for run in runs.values() if run.ended is not None}
    if stamp.attempt in ended:
        return AttemptEnd(stamp.attempt, ended[stamp.attempt])
    winner = next((run.ended for run in mine.values() if run.ended is not None), guard.counts.winner(stamp))
    if winner is not None:
        return AttemptEnd(winner, ended.get(winner, 0), done=True)
    _check_current(stamp.attempt, mine)
    counted = guard.counts.rows(stamp)
    if counted is not None and counted != rows:
        raise ConflictError(
            "not as many rows arrived as the attempt says; run it again as a new attempt", rows=counted, named=rows
        )
    if not mine:
        # Deletes in partitions that are not there went nowhere: no bucket knows of them, and a commit must not ask.
        return AttemptEnd(stamp.attempt, 0)
    marks = dict.fromkeys(mine, _no_rows(table.schema))
    write = QueuedWrite(marks, 0, 0, sequence=rows, stamp=stamp, kind=BatchKind.ATTEMPT_END)
    table.committer.commit(table.committer.plan([write]))
    return AttemptEnd(stamp.attempt, rows)


def _check_current(attempt: bytes, mine: Mapping[BucketId, AttemptRun]) -> None:
    for bucket, run in mine.items():
        if run.current != attempt:
            raise FencedError("a newer attempt writes this bucket; this one may write nothing", bucket=bucket)


def _no_rows(schema: TabletSchema) -> Request:
    rows = pa.RecordBatch.from_pylist([], schema=schema.user_columns)
    return Request(rows, pa.array([], pa.binary()) if schema.keyed else None, exact=True)
