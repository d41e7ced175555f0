"""The admission of writes by owners: every write of a table is asked here, in the committer, from memory alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.engine.commit.committer import Uncommitted
from penstock.engine.commit.group import NO_OWNER, OwnerStamp, QueuedWrite
from penstock.engine.owners.attempts import AttemptCounts
from penstock.engine.owners.column_locks import ColumnLocks
from penstock.engine.owners.live_owner import LiveOwner
from penstock.engine.owners.store import OwnerStore
from penstock.engine.owners.undo import OwnerUndo
from penstock.engine.table.open_table import OpenTable
from penstock.errors import FencedError, InvalidError, LockedError, UnsupportedError
from penstock.model.node.calls import WriteCall
from penstock.model.node.owner_token import NO_EPOCH, OwnerToken
from penstock.model.place.bucket import BucketId
from penstock.model.place.facts import NO_ID
from penstock.model.table.table import TableInfo
from penstock.runtime.clock import Clock
from penstock.tablet.state.owner_state import AttemptRun
from penstock.tablet.tablet import Tablet


class OwnerAdmission:
    """Implements `WriteAdmission` for the owners of one table."""

    def __init__(self, table: OpenTable, store: OwnerStore, undo: OwnerUndo, clock: Clock) -> None:
        self._table = table
        self._store = store
        self._undo = undo
        self.locks = ColumnLocks(table, store, clock)
        self.counts = AttemptCounts()
        self.find_staged: Callable[[int], LiveOwner | None] = lambda column: None
        """Finds an owner that has rows of a column staged."""

    def stamp(self, call: WriteCall, queued: QueuedWrite, principal: str) -> None:
        """Say under which owner a principal makes a write."""
        assert call.owner is not None
        token = OwnerToken.from_bytes(call.owner)
        self.check_token(token, principal)
        if call.attempt != NO_ID:
            self.require_epoch(token)
        if token.epoch != NO_EPOCH and not self._table.info.keyed:
            raise UnsupportedError(
                "a log table cannot take rows back; stage them: t.stage(data, owner=token, attempt=...)",
                table=self._table.info.path,
            )
        queued.stamp = OwnerStamp(token.number, token.fence, token.epoch, call.attempt)
        if queued.shape is not None:
            queued.shape = (queued.shape, queued.stamp)

    def check_token(self, token: OwnerToken, principal: str) -> None:
        """Refuse a token of another table, or of an owner that is not the principal's.

        Raises:
            InvalidError: it is of another table.
            PermissionDeniedError: the owner is another principal's.
        """
        if token.table_id != self._table.info.table_id:
            raise InvalidError(
                "the owner belongs to another table; acquire one of this table",
                owner=token.owner,
                table=self._table.info.path,
            )
        owner = self._store.find(token.owner)
        if owner is not None:
            owner.record.check_principal(principal)

    def require_epoch(self, token: OwnerToken) -> None:
        """Refuse a token of no epoch where rows belong to an attempt of one.

        Raises:
            ConflictError: the owner's last epoch was undone, or is committed.
            InvalidError: the owner writes outside epochs.
        """
        if token.epoch != NO_EPOCH:
            return
        owner = self._store.find(token.owner)
        if owner is not None:
            owner.record.check_outside()
        raise InvalidError(
            "rows of an attempt belong to an epoch; begin() one and pass owner.token(epoch)", owner=token.owner
        )

    def applied(self, call: WriteCall, queued: QueuedWrite) -> None:
        """Count the rows of an attempt."""
        if call.attempt != NO_ID:
            self.counts.add(queued.stamp, call.batch.num_rows, call.writer_id, call.sequence)

    def check(self, write: QueuedWrite) -> None:
        """Raise why the owner of a write may not write now, if it may not."""
        if write.stamp.owner != NO_OWNER.owner:
            self._table.committer.run(lambda: self.check_write(write.stamp))

    def wants_settling(self, write: QueuedWrite) -> bool:
        """Tell whether to admit a write means to change something first."""
        if not len(self._store):
            return False
        stamp = write.stamp
        if stamp.attempt != NO_ID and any(run.current != stamp.attempt for _, run in self._runs(write)):
            return True
        return bool(self.locks.leftovers(write)) or self.locks.may_remove(write)

    def admit(self, write: QueuedWrite) -> None:
        """Let a write in, or raise why not."""
        stamp = write.stamp
        owner = None if stamp.owner == NO_OWNER.owner else self.check_write(stamp)
        if owner is None and not len(self._store):
            return
        self.locks.check(write, owner)
        for other in self.locks.leftovers(write):
            self._undo.undo(other)
        if owner is not None and stamp.attempt != NO_ID:
            self._open_attempt(write, owner)
        if self.locks.may_remove(write) and self.locks.removes(write):
            if owner is not None:
                self.locks.check_undoable(write, owner)
            self.settle_removal(stamp.owner)
        self._tell_doubts(write)
        if owner is None or stamp.epoch == NO_EPOCH:
            return
        for bucket in write.parts:
            tablet = self._table.committer.tablets.get(bucket)
            if tablet is not None:
                self._undo.note(owner, tablet, tablet.view.visible)

    def settle_removal(self, besides: int) -> bool:
        """Make room for rows that go; tell whether anything had to be undone for it.

        Raises:
            LockedError: another owner holds a column.
        """
        others = self.locks.check_removal(besides)
        for other in others:
            self._undo.undo(other)
        return bool(others)

    def doubted(self, stamp: OwnerStamp, bucket: BucketId) -> int | None:
        """Return the offset from which on rows may hang on changes that an undo takes back, but not this write."""
        starts = [
            owner.pending[bucket]
            for owner in self._store
            if bucket in owner.pending and (owner.record.number != stamp.owner or self._has_attempts(stamp, bucket))
        ]
        return min(starts, default=None)

    def adopt(self, tablet: Tablet) -> None:
        """Pin what owners have uncommitted in a bucket that is taken up."""
        for owner in self._store:
            owner.pending.pop(tablet.bucket, None)
            owner.reach.pop(tablet.bucket, None)
            self._undo.adopt(owner, tablet)
            for attempt in tablet.state.owners.run(owner.record.number, owner.record.fence).opened:
                self.counts.doubt(attempt)

    def check_alteration(self, before: TableInfo, after: TableInfo) -> None:
        """Undo what expired owners left in columns that go or change their type; refuse what owners need.

        Raises:
            LockedError: an owner holds such a column, or any while locks are turned on or off.
        """
        changed = tuple(
            column.id
            for column in before.schema.columns
            if (now := after.schema.column_by_id(column.id)) is None or now.type != column.type
        )
        expired = [owner for column in changed for owner in self.locks.check_column(column)]
        for column in changed:
            staged = self.find_staged(column)
            if staged is not None:
                raise LockedError(
                    "rows of the column are staged; commit their epoch, or drop_owner theirs",
                    holder=staged.record.owner,
                    column=self.locks.names((column,)),
                )
        for owner in expired:
            self._undo.undo(owner)
        locks = [(info.options.column_lock_enabled, info.options.owners_allowed) for info in (before, after)]
        if locks[0] != locks[1]:
            self.locks.check_unused()

    def uncommitted(self, bucket: BucketId) -> list[Uncommitted]:
        """Return whose changes of a bucket may be undone yet."""
        return [
            Uncommitted(owner.record.number, owner.pending[bucket], owner.record.committed)
            for owner in self._store
            if bucket in owner.pending
        ]

    def check_write(self, stamp: OwnerStamp) -> LiveOwner:
        """Return the owner that may write under a stamp.

        Raises:
            FencedError: it was dropped, taken over, or its epoch is not open (any more).
            ConflictError: it names no epoch, and the owner writes in epochs.
        """
        owner = next((owner for owner in self._store if owner.record.number == stamp.owner), None)
        if owner is None:
            raise FencedError("the owner was dropped since; acquire it again")
        record = owner.record
        if record.lost or record.released or record.fence != stamp.fence:
            raise FencedError(
                "a newer holder or a later epoch has taken over; this one may write nothing",
                owner=record.owner,
                fence=stamp.fence,
                newest=record.fence,
            )
        if stamp.epoch == NO_EPOCH:
            record.check_outside()
        elif stamp.epoch != record.opened:
            raise FencedError(
                "the epoch is not open: it was committed, undone or never begun; begin it",
                owner=record.owner,
                epoch=stamp.epoch,
                open=record.opened,
                committed=record.committed,
            )
        return owner

    def _tell_doubts(self, write: QueuedWrite) -> None:
        if not any(owner.pending for owner in self._store):
            return
        doubts = {bucket: self.doubted(write.stamp, bucket) for bucket in write.parts}
        if any(doubted is not None for doubted in doubts.values()):
            write.parts = {bucket: replace(part, doubted=doubts[bucket]) for bucket, part in write.parts.items()}

    def _has_attempts(self, stamp: OwnerStamp, bucket: BucketId) -> bool:
        """Tell whether a write of no attempt may meet what an attempt of its epoch wrote: that may be undone alone."""
        tablet = self._table.committer.tablets.get(bucket)
        if stamp.attempt != NO_ID or tablet is None:
            return False
        run = tablet.state.owners.run(stamp.owner, stamp.fence)
        return bool(run.opened) and run.ended is None

    def _runs(self, write: QueuedWrite) -> list[tuple[BucketId, AttemptRun]]:
        tablets = self._table.committer.tablets
        return [
            (bucket, tablets[bucket].state.owners.run(write.stamp.owner, write.stamp.fence))
            for bucket in write.parts
            if bucket in tablets
        ]

    def _open_attempt(self, write: QueuedWrite, owner: LiveOwner) -> None:
        """Take over from an attempt that has not ended; drop the rows where one has."""
        attempt, parts = write.stamp.attempt, dict(write.parts)
        runs = self._runs(write)
        for bucket, run in runs:
            if run.ended is None and (attempt in run.fenced or (attempt in run.opened and run.current != attempt)):
                raise FencedError("a newer attempt writes this bucket; this one may write nothing", bucket=bucket)
        for bucket, run in runs:
            if run.ended is not None:
                del parts[bucket]
                if run.ended != attempt:
                    self.counts.lose(write.stamp, run.ended)
            elif run.current not in {None, attempt}:
                self._undo.undo_attempt(owner, bucket, run.current or NO_ID)
        write.late = len(parts) < len(write.parts)
        write.parts = parts
