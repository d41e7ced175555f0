"""Undo of owners and attempts in an open table: find their changes, pin them, take them back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.engine.commit.group import OwnerStamp, QueuedWrite
from penstock.engine.owners.live_owner import LiveOwner
from penstock.engine.owners.store import OwnerStore
from penstock.engine.table.open_table import OpenTable
from penstock.errors import NotLeaderError
from penstock.log.batch_directory import BatchDirectory
from penstock.model.node.owner import BucketUndo, UndoResult
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import BatchKind
from penstock.model.place.facts import NO_ID
from penstock.tablet.merge.required_columns import required_columns
from penstock.tablet.tablet import Tablet
from penstock.tablet.undo.undo_plan import plan_undo


class OwnerUndo:
    """Takes back what owners of one table did. Committer only."""

    def __init__(self, table: OpenTable, store: OwnerStore) -> None:
        self._table = table
        self._store = store

    def adopt(self, owner: LiveOwner, tablet: Tablet) -> None:
        """Find the first uncommitted change of an owner in a bucket, and pin it."""
        base, view = tablet.pins.base, tablet.view
        start = max(owner.record.start(tablet.bucket), base)
        directory = view.directory(start, view.visible)
        mine = (directory.owner == owner.record.number) & (directory.epoch > owner.record.committed)
        mine &= (directory.kind == BatchKind.DATA) & (directory.rows > 0)
        if mine.any():
            first = max(start, int(directory.base_offset[mine][0]))
            self.note(owner, tablet, first)
            self._extend(owner, tablet, max(base, reach_of(view.directory(base, view.visible), first)))

    def note(self, owner: LiveOwner, tablet: Tablet, offset: int) -> None:
        """Pin a bucket in which an owner has, or is about to have, uncommitted changes."""
        if tablet.bucket not in owner.pending:
            tablet.pins.pin(owner.pin_holder, offset)
            owner.pending[tablet.bucket] = offset

    def forget(self, owner: LiveOwner) -> None:
        """Let go of all pins: nothing is uncommitted any more."""
        for bucket in owner.pending:
            tablet = self._table.committer.tablets.get(bucket)
            if tablet is not None:
                tablet.pins.unpin(owner.pin_holder)
        owner.pending.clear()
        owner.reach.clear()

    def offsets(self, owner: LiveOwner) -> dict[BucketId, int]:
        """Return the present offsets of all buckets; those led elsewhere keep theirs."""
        known = {bucket: at for bucket, at in owner.record.offsets.items() if self._table.has(bucket)}
        return known | {bucket: view.visible for bucket, view in self._table.view.items()}

    def undo(self, owner: LiveOwner) -> UndoResult:
        """Take back everything uncommitted of an owner; the epoch is closed, durably, after that."""
        done: dict[BucketId, BucketUndo] = {}
        for bucket in sorted(owner.pending):
            done[bucket] = self._undo_bucket(owner, bucket, NO_ID)
        if owner.pending or owner.record.opened is not None:
            record = owner.record
            rests = record.resting or record.opened is not None
            self._store.save(owner, replace(record, opened=None, resting=rests, offsets=self.offsets(owner)))
        self.forget(owner)
        return UndoResult.of({self._table.name(bucket): counts for bucket, counts in done.items() if any(counts)})

    def undo_attempt(self, owner: LiveOwner, bucket: BucketId, attempt: bytes) -> None:
        """Take back what one attempt did in one bucket."""
        self._undo_bucket(owner, bucket, attempt)

    def rows_pending(self, owner: LiveOwner) -> int:
        """Return how many changes of an owner are not committed."""
        rows = 0
        for bucket, start in list(owner.pending.items()):
            view = self._table.view.get(bucket)
            if view is not None:
                found = view.directory(start, view.visible)
                mine = (found.owner == owner.record.number) & (found.epoch > owner.record.committed)
                rows += int(found.rows[mine & (found.kind == BatchKind.DATA)].sum())
        return rows

    def _undo_bucket(self, owner: LiveOwner, bucket: BucketId, attempt: bytes) -> BucketUndo:
        tablet = self._table.committer.tablets.get(bucket)
        if tablet is None:
            if self._table.has(bucket):
                raise NotLeaderError("this node does not lead the bucket now; try again", bucket=bucket)
            return BucketUndo(0, 0, 0)  # its partition was dropped, and the rows with it
        record = owner.record
        plan = plan_undo(
            tablet,
            owner.pending.get(bucket, tablet.view.visible),
            owner=record.number,
            committed=record.committed,
            reach=owner.reach.get(bucket),
            attempt=attempt,
            locked=self._table.info.options.column_lock_enabled,
            columns_of=self._columns,
            required=[int(column) for column in required_columns(self._table.info.schema)],
        )
        stamp = OwnerStamp(record.number, record.fence, record.committed, attempt)
        writes = [
            QueuedWrite({bucket: request}, request.rows.num_rows, request.rows.nbytes, stamp=stamp, kind=kind)
            for kind, request in plan.requests
        ]
        if writes:
            self._table.committer.commit(self._table.committer.plan(writes))
            # Others may have written what this took back, and be undone later: by then it must not be compacted away.
            start = owner.reach.get(bucket, owner.pending[bucket])
            for other in self._store:
                if other is not owner and bucket in other.pending:
                    self._extend(other, tablet, start)
        return plan.counts

    @staticmethod
    def _extend(owner: LiveOwner, tablet: Tablet, offset: int) -> None:
        bucket = tablet.bucket
        if offset < owner.reach.get(bucket, owner.pending[bucket]):
            tablet.pins.pin(owner.pin_holder, offset)
            owner.reach[bucket] = offset

    def _columns(self, schema_id: int) -> tuple[int, ...]:
        return tuple(column.id for column in self._table.known_schema(schema_id).value_columns)


def reach_of(directory: BatchDirectory, first: int) -> int:
    """Return the offset from which on the log has all that was undone after `first`, `first` itself if nothing was."""
    undoes = np.isin(directory.kind, (BatchKind.UNDO, BatchKind.ORPHAN))
    reach, before = first, None
    while reach != before:
        before = reach
        for mark in np.flatnonzero(undoes & (directory.base_offset >= reach)).tolist():
            taken = ~undoes & (directory.owner == directory.owner[mark]) & (directory.epoch > directory.epoch[mark])
            taken[mark:] = False
            if taken.any():
                reach = min(reach, int(directory.base_offset[taken][0]))
    return reach
