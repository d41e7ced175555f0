"""Column locks: which columns a write needs, and who holds them. Committer only, from memory alone.

A delete writes every column, also one that was not asked for by that name: a row that goes because its
count is down to zero, or because its last column was cleared. Whether a write does that is known only
from its plan, so where others hold columns such a write is planned once to find out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.commit.conforming import conformed
from penstock.engine.commit.group import NO_OWNER, QueuedWrite, WriteGroup
from penstock.engine.owners.live_owner import Columns, LiveOwner, outside
from penstock.engine.owners.store import OwnerStore
from penstock.engine.table.open_table import OpenTable
from penstock.errors import InvalidError, LockedError
from penstock.model.node.owner_token import NO_EPOCH
from penstock.model.place.change import NO_OFFSET, OP, PREV, SYSTEM_FIELDS, Op
from penstock.model.place.facts import NO_ID
from penstock.model.words.quantity import format_duration_ms
from penstock.runtime.clock import Clock
from penstock.tablet.merge.rule import Request
from penstock.tablet.tablet import Tablet

EVERY_COLUMN: Columns = None


class ColumnLocks:
    """The locks of one table's columns."""

    def __init__(self, table: OpenTable, store: OwnerStore, clock: Clock) -> None:
        self._table = table
        self._store = store
        self._clock = clock

    @property
    def enabled(self) -> bool:
        """Tell whether owners of this table exclude others from their columns."""
        return self._table.info.options.column_lock_enabled

    def check(self, write: QueuedWrite, owner: LiveOwner | None) -> None:
        """Refuse a write of columns that others hold, or that its owner does not.

        Raises:
            LockedError: another owner holds one.
            InvalidError: its own owner does not hold one.
        """
        if not self.enabled:
            return
        columns, deletes = write.columns, _deletes(write)
        if columns is None and len(self._store):
            columns = self._sent(write)
        besides = NO_OWNER.owner if owner is None else owner.record.number
        self._check_others(EVERY_COLUMN if deletes else columns, besides)
        if owner is not None and deletes:
            self.check_undoable(write, owner)
        elif owner is not None:
            assert columns is not None, "there is at least this owner"
            there = tuple(c for c in columns if self._table.info.schema.column_by_id(c) is not None)
            # One that was dropped is told when the write is planned.
            missing = outside(there, owner.record.columns)
            if missing:
                raise InvalidError(
                    "the write names columns that the owner does not hold; acquire them, or pass columns=[...]",
                    owner=owner.record.owner,
                    columns=self.names(tuple(missing)),
                )

    def check_undoable(self, write: QueuedWrite, owner: LiveOwner) -> None:
        """Refuse to delete rows in an epoch, with columns that others may go on to fold values into.

        Others' later values would stand on nothing, and an undo could not put back what they left out. Where
        the last value counts, what others wrote since is right as it is.

        Raises:
            InvalidError: the owner does not hold every column.
        """
        if self._table.info.folds and write.stamp.epoch != NO_EPOCH and not self._holds_every(owner):
            raise InvalidError(
                "rows of an aggregating table go in an epoch only if its owner holds every column; "
                "acquire it without columns=, or name them all",
                owner=owner.record.owner,
                columns=self.names(owner.record.columns),
            )

    def check_removal(self, besides: int) -> list[LiveOwner]:
        """Return the expired owners whose uncommitted changes a row that goes may hold; refuse if one is not expired.

        Raises:
            LockedError: another owner holds a column.
        """
        if not self.enabled:
            return []
        self._check_others(EVERY_COLUMN, besides)
        return self._expired(EVERY_COLUMN, besides)

    def check_column(self, column: int) -> list[LiveOwner]:
        """Return the expired owners with uncommitted changes in a column; refuse while one holds it.

        Raises:
            LockedError: an owner does, whether locks are on or not.
        """
        now_ms, expired = self._clock.monotonic_ms(), []
        for other in self._store.holding((column,)):
            if other.holds(now_ms):
                raise self.refusal(other)
            if other.pending:
                expired.append(other)
        return expired

    def check_unused(self) -> None:
        """Refuse to turn locks on or off under owners.

        Raises:
            LockedError: there is an owner that holds columns, or has something uncommitted.
        """
        now_ms = self._clock.monotonic_ms()
        for other in self._store:
            if other.holds(now_ms) or other.pending or other.record.opened is not None:
                raise self.refusal(other)

    def leftovers(self, write: QueuedWrite) -> list[LiveOwner]:
        """Return the expired owners whose uncommitted changes a write would meet."""
        return self._expired(_written(write), write.stamp.owner) if self.enabled else []

    def may_remove(self, write: QueuedWrite) -> bool:
        """Tell whether rows may go by a write that is no delete, where that concerns another owner or an undo."""
        if not self.enabled or _deletes(write):
            return False
        if not self._holds_some(write) and not self._store.holding(EVERY_COLUMN, besides=write.stamp.owner):
            return False
        if any(request.clears for request in write.parts.values()):
            return True
        counter = self._table.info.options.aggregate_delete_at_zero
        if counter is None:
            return False
        return write.columns is None or self._table.info.schema.column(counter).id in write.columns

    def removes(self, write: QueuedWrite) -> bool:
        """Tell whether rows would go by a write, if it were made now."""
        for bucket, request in write.parts.items():
            tablet = self._table.committer.tablets.get(bucket)
            if tablet is None:
                continue
            if write.writer_id != NO_ID and tablet.state.writers.find(write.writer_id, write.sequence) is not None:
                continue  # made before: this is its retry
            keyed = replace(request, keys=tablet.schema.encode_keys(request.rows))
            if write.schema_id is not None:
                keyed = conformed(keyed, tablet.schema, write.known)
            if _has_deletes(tablet.planner().plan(keyed).batch) or self._may_go(write, tablet, keyed):
                return True
        return False

    def _may_go(self, write: QueuedWrite, tablet: Tablet, request: Request) -> bool:
        """Tell whether a clear takes the last value of a row, but for those that others' undo takes back.

        The row would stay for their sake, and it could not be told after the undo that it was to go; a row that
        they deleted would come back as it was.
        """
        others = [
            owner
            for owner in self._store
            if tablet.bucket in owner.pending and owner.record.number != write.stamp.owner
        ]
        if not request.clears or request.columns is None or not others:
            return False
        since = min(owner.pending[tablet.bucket] for owner in others)
        every = [column.id for column in self._table.info.schema.value_columns]
        theirs = {column for owner in others for column in owner.record.columns or every}
        alone = replace(request, columns=tuple(sorted({*request.columns, *theirs})))
        batch = tablet.planner().plan(alone).batch
        goes = batch.column(OP).to_numpy() == Op.DELETE
        if bool(np.any(batch.column(PREV).to_numpy()[goes] >= since)):
            return True
        assert request.keys is not None
        absent = request.keys.filter(pa.array(tablet.live_offsets(request.keys) == NO_OFFSET))
        return len(absent) > 0 and _deleted_since(tablet, since, absent)

    def refusal(self, other: LiveOwner) -> LockedError:
        """Return the error that names who holds columns."""
        remaining_ms = max(0, other.expires_ms - self._clock.monotonic_ms())
        return LockedError(
            "columns are held by an owner; write other columns, or wait until it lets go",
            holder=other.record.owner,
            columns=self.names(other.record.columns),
            remaining=format_duration_ms(-(-remaining_ms // 1000) * 1000),
            remaining_ms=remaining_ms,
            held_by=other.record.holder,
        )

    def names(self, columns: Columns) -> list[str]:
        """Return the names of columns."""
        schema = self._table.info.schema
        return [column.name for column in schema.value_columns if columns is None or column.id in columns]

    def _sent(self, write: QueuedWrite) -> tuple[int, ...]:
        """Return the columns outside the key that whole rows have: not one that was added after they were routed."""
        sent = {name for request in write.parts.values() for name in request.rows.schema.names}
        return tuple(column.id for column in self._table.info.schema.value_columns if str(column.id) in sent)

    def _holds_some(self, write: QueuedWrite) -> bool:
        """Tell whether a write is made in an epoch whose owner does not hold every column."""
        stamp = write.stamp
        return stamp.epoch != NO_EPOCH and any(
            owner.record.number == stamp.owner and not self._holds_every(owner) for owner in self._store
        )

    def _holds_every(self, owner: LiveOwner) -> bool:
        every = tuple(column.id for column in self._table.info.schema.value_columns)
        return not outside(every, owner.record.columns)

    def _expired(self, columns: Columns, besides: int) -> list[LiveOwner]:
        now_ms = self._clock.monotonic_ms()
        others = self._store.holding(columns, besides=besides)
        return [other for other in others if other.pending and not other.holds(now_ms)]

    def _check_others(self, columns: Columns, besides: int) -> None:
        now_ms = self._clock.monotonic_ms()
        for other in self._store.holding(columns, besides=besides):
            if other.holds(now_ms):
                raise self.refusal(other)


def removes_rows(group: WriteGroup) -> bool:
    """Tell whether rows go by what is planned."""
    batches = (batch for entries in group.entries.values() for _, batch in entries)
    return any(batch is not None and _has_deletes(batch) for batch in batches)


def _deleted_since(tablet: Tablet, since: int, keys: pa.BinaryArray) -> bool:
    """Tell whether one of the keys was deleted at an offset or later."""
    view, schema = tablet.view, tablet.schema
    projection = pa.schema([*schema.key_fields, *SYSTEM_FIELDS])
    for block in view.changes(since, view.visible, projection):
        deleted = block.batch.filter(pc.equal(block.batch.column(OP), int(Op.DELETE)))
        if pc.any(pc.is_in(schema.encode_keys(deleted), value_set=keys)).as_py():
            return True
    return False


def _has_deletes(batch: pa.RecordBatch) -> bool:
    # A log table's rows have no such column: none of them ever goes.
    return OP in batch.schema.names and bool(np.any(batch.column(OP).to_numpy() == Op.DELETE))


def _written(write: QueuedWrite) -> Columns:
    return EVERY_COLUMN if _deletes(write) else write.columns


def _deletes(write: QueuedWrite) -> bool:
    return any(request.deletes is not None for request in write.parts.values())
