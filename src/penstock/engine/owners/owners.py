"""The owners of an open table: acquire, begin, commit, undo, release, drop.

Every call here is one step of the committer, so a lock and a fence are in force in every bucket before
offsets are read, and nothing is written between an undo and what it makes room for. What must survive
is stored before the call returns, in one write; a crash in the middle of an undo leaves some keys
undone, and the next undo finds the others by the log alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from penstock.engine.metadata.store import MetadataStore
from penstock.engine.owners.admission import OwnerAdmission
from penstock.engine.owners.attempts import Attempts, check_attempts
from penstock.engine.owners.live_owner import Columns, LiveOwner
from penstock.engine.owners.record import OwnerRecord, principal_of_record
from penstock.engine.owners.staged_commit import TOGETHER_BYTES_MAX, StagedCommit
from penstock.engine.owners.store import OwnerStore
from penstock.engine.owners.undo import OwnerUndo
from penstock.engine.settings import Settings
from penstock.engine.table.open_table import OpenTable
from penstock.errors import ConflictError, InvalidError, PenstockError, UnsupportedError
from penstock.model.node.owner import AcquireOwner, EpochBegun, EpochStatus, OwnerGrant, OwnerInfo, UndoResult
from penstock.model.node.owner_token import OwnerToken
from penstock.model.schema.aggregate import AggFunction
from penstock.runtime.clock import Clock
from penstock.runtime.disk import Disk

_log = logging.getLogger("penstock")

T = TypeVar("T")
ID_LENGTH_MAX = 200


class Owners:
    """Owners of one table. Thread-safe: every call is a step of the table's committer."""

    def __init__(
        self,
        table: OpenTable,
        store: MetadataStore,
        *,
        disk: Disk,
        settings: Settings,
        clock: Clock,
        together_bytes_max: int = TOGETHER_BYTES_MAX,
    ) -> None:
        """Find the owners of a table; a commit shows rows of up to `together_bytes_max` at once."""
        self._table = table
        self._settings = settings
        self._clock = clock
        self._store = OwnerStore(table.info.table_id, store, clock)
        self._undo = OwnerUndo(table, self._store)
        self.guard = OwnerAdmission(table, self._store, self._undo, clock)
        self.staged = StagedCommit(
            table, disk, self._store, self._undo, self.guard, together_bytes_max=together_bytes_max
        )
        for tablet in table.committer.tablets.values():
            self.guard.adopt(tablet)
        table.committer.guard = self.guard
        self._finish_commits()

    def acquire(self, call: AcquireOwner, principal: str) -> OwnerGrant:
        """Make a principal the owner of columns; an older holder of the same id is fenced.

        Raises:
            LockedError: another owner holds one of the columns.
            ConflictError: the id belongs to another incarnation.
            LimitError: the table, or this caller on it, has too many owners.
            PermissionDeniedError: the id is another principal's.
            UnsupportedError: the table has no owners.
        """
        columns = self._check(call)
        return self._step(lambda: self._acquire(call, columns, principal))

    def renew(self, token: OwnerToken) -> int:
        """Take a sign of life; return how long the owner lasts from now on."""

        def step() -> int:
            owner = self._store.by_session(token)
            self._store.note_use(owner)
            return owner.record.ttl_ms

        return self._step(step)

    def release(self, token: OwnerToken) -> None:
        """Undo what is uncommitted and give the columns back; idempotent for the holder."""

        def step() -> None:
            owner = self._store.by_token(token)
            if owner.record.session != token.session or owner.record.released:
                return
            self._undo.undo(owner)
            self._forget_epoch(owner)
            self._store.save(owner, replace(owner.record, released=True, resting=False))

        self._step(step)

    def drop(self, name: str, principal: str, *, undo: bool) -> UndoResult:
        """Forget an owner, after undoing what is uncommitted of it, or leaving it.

        Raises:
            OwnerNotFoundError: there is no such owner.
            PermissionDeniedError: it is another principal's.
        """
        self._store.get(name).record.check_principal(principal)

        def step() -> UndoResult:
            owner = self._store.get(name)
            self.staged.roll_forward(owner)
            result = self._undo.undo(owner) if undo else UndoResult()
            self._undo.forget(owner)
            self._forget_epoch(owner)
            self._store.remove(owner)
            return result

        return self._step(step)

    def begin(self, token: OwnerToken, epoch: int) -> EpochBegun:
        """Open an epoch; everything uncommitted is undone first.

        Raises:
            ConflictError: a later epoch is committed.
        """
        if epoch < 0:
            raise InvalidError("an epoch is 0 or more", epoch=epoch)

        def step() -> EpochBegun:
            owner = self._store.by_session(token)
            record = owner.record
            self._store.note_use(owner)
            self.staged.roll_forward(owner)
            if epoch == record.committed:
                self._rest(owner)
                return EpochBegun(EpochStatus.COMMITTED, record.fence)
            if epoch < record.committed:
                raise ConflictError(
                    "a later epoch is committed; was the job's checkpoint reset? Start it under another owner id, "
                    "or drop_owner this one",
                    owner=record.owner,
                    epoch=epoch,
                    committed=record.committed,
                )
            if owner.pending:
                self._undo.undo(owner)
            self._forget_epoch(owner)
            fence = record.fence + 1
            offsets = self._undo.offsets(owner)
            self._store.save(owner, replace(owner.record, opened=epoch, resting=False, fence=fence, offsets=offsets))
            return EpochBegun(EpochStatus.NEW, fence)

        return self._step(step)

    def commit(self, token: OwnerToken, epoch: int, attempts: Attempts | None, *, replaces: bool = False) -> None:
        """Commit an epoch: from here on nothing of it is undone. Idempotent.

        With `replaces` every row that the table has at that moment goes, and what the epoch staged takes its place.

        Raises:
            ConflictError: the epoch is not open, or something of it is missing.
        """

        def step() -> None:
            owner = self._store.by_session(token)
            record = owner.record
            self._store.note_use(owner)
            if epoch == record.committed:
                self.staged.roll_forward(owner)
                return
            if epoch != record.opened:
                raise ConflictError(
                    "the epoch is not open: it was undone or never begun; begin it and write again",
                    owner=record.owner,
                    epoch=epoch,
                    open=record.opened,
                    committed=record.committed,
                )
            self._commit(owner, epoch, attempts, replaces=replaces)

        self._step(step)

    def undo(self, token: OwnerToken) -> UndoResult:
        """Undo everything uncommitted and close the epoch; the owner writes nothing until it begins or leaves."""
        return self._step(lambda: self._close_epoch(token, rests=True))

    def leave(self, token: OwnerToken) -> UndoResult:
        """Undo everything uncommitted; from here on the owner writes outside epochs, until it begins one."""
        return self._step(lambda: self._close_epoch(token, rests=False))

    def infos(self) -> list[OwnerInfo]:
        """Return what is known of every owner."""
        now_ms = self._clock.monotonic_ms()
        return [self._info(owner, now_ms) for owner in self._store]

    def reap(self) -> None:
        """Undo what was abandoned, and forget who was silent too long."""
        self._finish_commits()
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        for owner in self._store:
            unsettled = bool(owner.pending) or owner.record.opened is not None
            if unsettled and now_ms - owner.seen_ms >= self._settings.owner_abandon_after_ms:
                self._step(partial(self._abandon, owner, now_ms))
            elif not unsettled and wall_ms - owner.record.used_ms >= self._settings.owner_retention_ms:
                self._step(partial(self._expire, owner, wall_ms))

    def _close_epoch(self, token: OwnerToken, *, rests: bool) -> UndoResult:
        owner = self._store.by_session(token)
        self._store.note_use(owner)
        result = self._undo.undo(owner)
        self._forget_epoch(owner)
        self._rest(owner, rests=rests)
        return result

    def _rest(self, owner: LiveOwner, *, rests: bool = True) -> None:
        if owner.record.resting != rests:
            self._store.save(owner, replace(owner.record, resting=rests))

    def _finish_commits(self) -> None:
        """Roll forward what was decided and not applied; what cannot be now is tried again."""
        for owner in self._store:
            if owner.record.accepted:
                try:
                    self._step(partial(self.staged.roll_forward, owner))
                except (PenstockError, OSError) as error:
                    _log.error("a committed epoch is not applied yet owner=%s reason=%s", owner.record.owner, error)

    def _acquire(self, call: AcquireOwner, columns: Columns, principal: str) -> OwnerGrant:
        now_ms = self._clock.monotonic_ms()
        owner = self._store.find(call.owner)
        number = -1 if owner is None else owner.record.number
        if owner is not None:
            owner.record.check_principal(principal)
        if owner is not None and owner.record.incarnation != call.incarnation:
            raise ConflictError(
                "the owner id belongs to another incarnation; use another id, or drop_owner this one",
                owner=call.owner,
                incarnation=owner.record.incarnation,
                asked=call.incarnation,
            )
        if owner is None:
            self._store.check_room(principal, self._settings.owners_per_table_max)
        others = self._store.holding(columns, besides=number) if self._table.info.options.column_lock_enabled else []
        for other in others:
            if other.holds(now_ms):
                raise self.guard.locks.refusal(other)
        for other in others:
            # Leftovers first: no write may build on what is about to be taken back.
            self._undo.undo(other)
            self._forget_epoch(other)
            self._store.save(other, replace(other.record, lost=True))
        ttl_ms = self._settings.column_lock_ttl_ms if call.ttl_ms is None else call.ttl_ms
        if owner is None:
            owner = self._store.add(
                OwnerRecord(
                    owner=call.owner,
                    number=-1,
                    columns=columns,
                    fence=1,
                    session=1,
                    incarnation=call.incarnation,
                    ttl_ms=ttl_ms,
                    holder=call.holder,
                    used_ms=self._clock.wall_ms(),
                    principal=principal_of_record(principal),
                    offsets={bucket: view.visible for bucket, view in self._table.view.items()},
                )
            )
        else:
            self._take_over(owner, call, columns, ttl_ms=ttl_ms, principal=principal)
        record = owner.record
        token = OwnerToken(self._table.info.table_id, record.number, record.owner, record.session, record.fence)
        names = tuple(self.guard.locks.names(record.columns))
        return OwnerGrant(token.to_bytes(), record.ttl_ms, names, record.committed, record.opened)

    def _take_over(
        self, owner: LiveOwner, call: AcquireOwner, columns: Columns, *, ttl_ms: int, principal: str
    ) -> None:
        record = owner.record
        if columns != record.columns and owner.pending:
            # What it wrote in columns that it no longer holds could not be told from others' later.
            self._undo.undo(owner)
            record = owner.record
        fence = record.fence + 1
        self._store.save(
            owner,
            replace(
                record,
                columns=columns,
                fence=fence,
                session=fence,
                ttl_ms=ttl_ms,
                holder=call.holder,
                lost=False,
                released=False,
                principal=record.principal or principal_of_record(principal),
            ),
        )
        owner.touch(self._clock.monotonic_ms())

    def _commit(self, owner: LiveOwner, epoch: int, attempts: Attempts | None, *, replaces: bool) -> None:
        record = owner.record
        if replaces:
            attempts = {**(attempts or {}), **self.staged.clear(owner, epoch)}
        tablets = self._table.committer.tablets
        runs = [
            (self._table.name(bucket), tablet.state.owners.run(record.number, record.fence))
            for bucket, tablet in sorted(tablets.items())
        ]
        check_attempts(runs, self.staged.rows(record.number, epoch), attempts)
        verified = self.staged.verify(owner, epoch, attempts or {})
        self._store.save(
            owner,
            replace(
                record,
                committed=epoch,
                opened=None,
                resting=False,
                accepted=verified.attempts,
                offsets=self._undo.offsets(owner),
            ),
        )
        self._undo.forget(owner)
        self.guard.counts.forget(record.number)
        self.staged.roll_forward(owner, verified)

    def _abandon(self, owner: LiveOwner, now_ms: int) -> None:
        if now_ms - owner.seen_ms >= self._settings.owner_abandon_after_ms:
            used_ms, seen_ms = owner.record.used_ms, owner.seen_ms
            self._undo.undo(owner)
            self._forget_epoch(owner)
            # An undo by the server is no use of the owner: its retention counts on.
            owner.record, owner.seen_ms = replace(owner.record, used_ms=used_ms), seen_ms

    def _expire(self, owner: LiveOwner, wall_ms: int) -> None:
        if not owner.pending and wall_ms - owner.record.used_ms >= self._settings.owner_retention_ms:
            self._forget_epoch(owner)
            self._store.remove(owner)

    def _forget_epoch(self, owner: LiveOwner) -> None:
        """Drop what only the epoch needed: staged rows, counts of attempts."""
        self.guard.counts.forget(owner.record.number)
        if not owner.record.accepted:
            self.staged.discard(owner.record.number)

    def _info(self, owner: LiveOwner, now_ms: int) -> OwnerInfo:
        record = owner.record
        held = owner.holds(now_ms)
        return OwnerInfo(
            table=self._table.info.path,
            owner=record.owner,
            columns=tuple(self.guard.locks.names(record.columns)),
            fence=record.fence,
            incarnation=record.incarnation,
            committed_epoch=record.committed,
            open_epoch=record.opened,
            rows_pending=self._undo.rows_pending(owner),
            holder=record.holder,
            held=held,
            expires_in_ms=max(0, owner.expires_ms - now_ms) if held else 0,
        )

    def _check(self, call: AcquireOwner) -> Columns:
        info = self._table.info
        if not info.options.owners_allowed:
            raise UnsupportedError("the table has column-lock.enabled=false; owners need it", table=info.path)
        if not call.owner or not call.owner.isprintable() or len(call.owner) > ID_LENGTH_MAX:
            raise InvalidError(
                f"an owner id has 1 to {ID_LENGTH_MAX} printable characters", owner=ascii(call.owner)[:80]
            )
        if call.ttl_ms is not None and call.ttl_ms <= 0:
            raise InvalidError("the ttl is longer than zero", ttl_ms=call.ttl_ms)
        if call.columns is None:
            return None
        wanted = [info.schema.column(name) for name in call.columns if name not in info.primary_key]
        ids = tuple(sorted({column.id for column in wanted}))
        if not ids:
            raise InvalidError("columns= names no column besides the key", columns=list(call.columns))
        # A row that its epoch makes may go again. A writer of another column of it would be left with a
        # row that lacks a required value, or begins with no first value: an owner of such a column excludes all others.
        begins = any(not column.nullable or column.agg is AggFunction.FIRST_VALUE for column in wanted)
        return None if begins else ids

    def _step(self, step: Callable[[], T]) -> T:
        return self._table.committer.run(step)
