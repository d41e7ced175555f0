"""Who may write what: every write of a table is asked here, in the committer, from memory alone."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.attempts import AttemptCounts
from penstock.engine.live_owner import Columns, LiveOwner, outside
from penstock.engine.live_table import LiveTable
from penstock.engine.owner_book import OwnerBook
from penstock.engine.owner_undo import OwnerUndo
from penstock.engine.write_group import NOBODY, OwnerStamp, QueuedWrite
from penstock.errors import FencedError, InvalidError, LockedError, UnsupportedError
from penstock.model.bucket import BucketId
from penstock.model.calls import WriteCall
from penstock.model.facts import NO_ID
from penstock.model.owner_token import NO_EPOCH, OwnerToken
from penstock.model.quantity import format_duration_ms
from penstock.runtime.clock import Clock
from penstock.tablet.owner_state import AttemptRun
from penstock.tablet.tablet import Tablet


class OwnerGuard:
    """Implements `Guard` for the owners of one table."""

    def __init__(self, table: LiveTable, book: OwnerBook, undo: OwnerUndo, clock: Clock) -> None:
        self._table = table
        self._book = book
        self._undo = undo
        self._clock = clock
        self.counts = AttemptCounts()

    def stamp(self, call: WriteCall, queued: QueuedWrite) -> None:
        """Say in whose name a write is made."""
        assert call.owner is not None
        token = OwnerToken.from_bytes(call.owner)
        self.check_table(token)
        if call.attempt != NO_ID and token.epoch == NO_EPOCH:
            raise InvalidError("an attempt belongs to an epoch; pass owner.token(epoch)", owner=token.owner)
        if token.epoch != NO_EPOCH and not self._table.info.keyed:
            raise UnsupportedError(
                "a log table cannot take rows back; stage them: t.stage(data, owner=token, attempt=...)",
                table=self._table.info.path,
            )
        queued.stamp = OwnerStamp(token.number, token.fence, token.epoch, call.attempt)
        if queued.shape is not None:
            queued.shape = (queued.shape, queued.stamp)

    def check_table(self, token: OwnerToken) -> None:
        """Refuse a token of another table.

        Raises:
            InvalidError: it is one.
        """
        if token.table_id != self._table.info.table_id:
            raise InvalidError(
                "the owner belongs to another table; acquire one of this table",
                owner=token.owner,
                table=self._table.info.path,
            )

    def applied(self, call: WriteCall, queued: QueuedWrite) -> None:
        """Count the rows of an attempt."""
        if call.attempt != NO_ID:
            self.counts.add(queued.stamp, call.batch.num_rows, call.writer_id, call.sequence)

    def wants_settling(self, write: QueuedWrite) -> bool:
        """Tell whether to admit a write means to change something first."""
        if not len(self._book):
            return False
        stamp = write.stamp
        if stamp.attempt != NO_ID and any(run.current != stamp.attempt for _, run in self._runs(write)):
            return True
        return bool(self._leftovers(write))

    def admit(self, write: QueuedWrite) -> None:
        """Let a write in, or raise why not."""
        stamp = write.stamp
        owner = None if stamp.owner == NOBODY.owner else self.check_write(stamp)
        if owner is None and not len(self._book):
            return
        self.check_locks(write, owner)
        for other in self._leftovers(write):
            self._undo.undo(other)
        if owner is None or stamp.epoch == NO_EPOCH:
            return
        if stamp.attempt != NO_ID:
            self._open_attempt(write, owner)
        for bucket in write.parts:
            tablet = self._table.committer.tablets.get(bucket)
            if tablet is not None:
                self._undo.note(owner, tablet, tablet.view.visible)

    def adopt(self, tablet: Tablet) -> None:
        """Pin what owners have uncommitted in a bucket that is taken up."""
        for owner in self._book:
            owner.pending.pop(tablet.bucket, None)
            self._undo.adopt(owner, tablet)
            for attempt in tablet.state.owners.run(owner.record.number, owner.record.fence).opened:
                self.counts.doubt(attempt)

    def locked(self, other: LiveOwner, name: Callable[[Columns], list[str]]) -> LockedError:
        """Return the error that names who holds columns."""
        remaining_ms = max(0, other.expires_ms - self._clock.monotonic_ms())
        return LockedError(
            "columns are held by an owner; write other columns, or wait until it lets go",
            holder=other.record.owner,
            columns=name(other.record.columns),
            remaining=format_duration_ms(remaining_ms),
        )

    @property
    def _locks(self) -> bool:
        return self._table.info.options.column_lock_enabled

    def check_write(self, stamp: OwnerStamp) -> LiveOwner:
        """Return the owner that may write under a stamp.

        Raises:
            FencedError: it was dropped, taken over, or its epoch is not open (any more).
        """
        owner = next((owner for owner in self._book if owner.record.number == stamp.owner), None)
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
        if stamp.epoch not in {NO_EPOCH, record.opened}:
            raise FencedError(
                "the epoch is not open: it was committed, undone or never begun; begin it",
                owner=record.owner,
                epoch=stamp.epoch,
                open=record.opened,
                committed=record.committed,
            )
        return owner

    def check_locks(self, write: QueuedWrite, owner: LiveOwner | None) -> None:
        """Refuse a write of columns that others hold, or that its owner does not.

        Raises:
            LockedError: another owner holds one.
            InvalidError: its own owner does not hold one.
        """
        if not self._locks:
            return
        columns, now_ms = _written(write), self._clock.monotonic_ms()
        besides = -1 if owner is None else owner.record.number
        for other in self._book.holding(columns, besides=besides):
            if other.holds(now_ms):
                raise self.locked(other, self.names)
        if owner is not None and not _deletes(write):
            every = (column.id for column in self._table.info.schema.value_columns)
            missing = outside(columns, owner.record.columns, every)
            if missing:
                raise InvalidError(
                    "the write names columns that the owner does not hold; acquire them, or pass columns=[...]",
                    owner=owner.record.owner,
                    columns=self.names(tuple(missing)),
                )

    def _leftovers(self, write: QueuedWrite) -> list[LiveOwner]:
        """Return the expired owners whose uncommitted changes a write would meet."""
        if not self._locks:
            return []
        now_ms = self._clock.monotonic_ms()
        others = self._book.holding(_written(write), besides=write.stamp.owner)
        return [other for other in others if other.pending and not other.holds(now_ms)]

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

    def names(self, columns: Columns) -> list[str]:
        """Return the names of columns."""
        schema = self._table.info.schema
        return [column.name for column in schema.value_columns if columns is None or column.id in columns]


def _written(write: QueuedWrite) -> Columns:
    return None if _deletes(write) else write.columns


def _deletes(write: QueuedWrite) -> bool:
    return any(request.deletes is not None for request in write.parts.values())
