"""Owners of all tables of a node: every call finds its table's, and background work visits all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from penstock.engine.catalog.identity import Identity
from penstock.engine.metadata.store import Delete, MetadataStore
from penstock.engine.owners.attempt_ends import end_attempt
from penstock.engine.owners.owners import Owners
from penstock.engine.owners.record import PREFIX, OwnerRecord, table_prefix
from penstock.engine.settings import Settings
from penstock.engine.table.bucket_names import naming
from penstock.engine.table.open_table import OpenTable
from penstock.errors import ClosedError, InvalidError, NotFoundError, PenstockError, UnavailableError
from penstock.model.node.calls import WriteCall, WriteResult
from penstock.model.node.owner import AcquireOwner, AttemptEnd, EpochBegun, OwnerGrant, OwnerInfo, UndoResult
from penstock.model.node.owner_token import OwnerToken
from penstock.model.node.principal import ActsForPrincipal
from penstock.model.place.bucket import BucketId
from penstock.runtime.clock import Clock
from penstock.runtime.disk import Disk

_log = logging.getLogger("penstock")


class OwnerService(ActsForPrincipal):
    """Answers calls about owners; implements `penstock.model.node.facets.owners.OwnersFacet`.

    Thread-safe: the owners of a table change on its committer only, the map of tables under a lock.
    """

    def __init__(
        self,
        tables: Callable[[int], OpenTable],
        store: MetadataStore,
        *,
        disk: Disk,
        settings: Settings,
        clock: Clock,
        identity: Identity,
        principal: str,
    ) -> None:
        super().__init__(principal)
        self._tables = tables
        self._store = store
        self._disk = disk
        self._settings = settings
        self._clock = clock
        self._identity = identity
        self._lock = threading.Lock()
        self._owners: dict[int, Owners] = {}

    def attach(self, table: OpenTable) -> None:
        """Keep the owners of a table that was just opened, before any caller sees it."""
        owners = Owners(table, self._store, disk=self._disk, settings=self._settings, clock=self._clock)
        with self._lock:
            self._owners[table.info.table_id] = owners

    def committed_offsets(self, table_id: int) -> dict[BucketId, int]:
        """Return the greatest offset that owners of a table have recorded of each bucket."""
        reached: dict[BucketId, int] = {}
        for _, record in self._records(table_prefix(table_id)):
            for bucket, offset in record.offsets.items():
                reached[bucket] = max(reached.get(bucket, 0), offset)
        return reached

    def resume(self) -> None:
        """Open the tables whose owners have something to finish or to undo."""
        unsettled = {table_id for table_id, record in self._records() if record.opened is not None or record.accepted}
        for table_id in sorted(unsettled):
            try:
                self._tables(table_id)
            except NotFoundError:
                self.forget(table_id)  # it was dropped, and the process died before its owners were forgotten
            except (PenstockError, OSError) as error:
                _log.error("table with unsettled owners cannot be opened table_id=%s reason=%s", table_id, error)

    def forget(self, table_id: int) -> None:
        """Forget the owners of a table that was dropped."""
        with self._lock:
            self._owners.pop(table_id, None)
        entries = self._store.list(table_prefix(table_id))
        if entries:
            self._store.commit([Delete(entry.key) for entry in entries])

    def reap(self) -> None:
        """Undo what was abandoned, and forget who was silent too long."""
        with self._lock:
            owners = list(self._owners.values())
        for one in owners:
            try:
                one.reap()
            except (ClosedError, NotFoundError, UnavailableError):
                continue  # closed or dropped meanwhile, or not now: the next round tries again

    def acquire(self, call: AcquireOwner) -> OwnerGrant:
        """Make the caller the owner of columns; an older holder of the same id is fenced."""
        grant = self._of(call.table_id).acquire(call, self._principal)
        token = replace(OwnerToken.from_bytes(grant.token), database=self._identity.database)
        return replace(grant, token=token.to_bytes())

    def renew(self, owner: bytes) -> int:
        """Take a sign of life; return how many milliseconds the owner lasts from now on."""
        owners, token = self._owned(owner)
        return owners.renew(token)

    def release(self, owner: bytes) -> None:
        """Undo what is uncommitted and give the columns back; idempotent."""
        owners, token = self._owned(owner)
        owners.release(token)

    def drop(self, table_id: int, owner: str, *, undo: bool = True) -> UndoResult:
        """Forget an owner, after undoing what is uncommitted of it, or leaving it."""
        return self._of(table_id).drop(owner, self._principal, undo=undo)

    def begin(self, owner: bytes, epoch: int) -> EpochBegun:
        """Open an epoch; everything uncommitted is undone first."""
        owners, token = self._owned(owner)
        return owners.begin(token, epoch)

    def commit(
        self,
        owner: bytes,
        epoch: int,
        attempts: Mapping[bytes, int | None] | None = None,
        *,
        replaces: bool = False,
    ) -> None:
        """Commit an epoch with the attempts accepted and the rows of each, where known; idempotent.

        With `replaces` its staged rows take the place of all that the table has at that moment.
        """
        owners, token = self._owned(owner)
        owners.commit(token, epoch, attempts, replaces=replaces)

    def undo(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and close the epoch."""
        owners, token = self._owned(owner)
        return owners.undo(token)

    def leave(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and let the owner write outside epochs."""
        owners, token = self._owned(owner)
        return owners.leave(token)

    def stage(self, call: WriteCall) -> WriteResult:
        """Make rows durable that appear when their epoch is committed."""
        self._settings.check_write(call)
        if call.owner is None:
            return self._of(call.table_id).staged.stage(call)
        return self._owned(call.owner, call.table_id)[0].staged.stage(call)

    def end_attempt(self, owner: bytes, attempt: bytes, written: int) -> AttemptEnd:
        """End an attempt that wrote so many rows; the answer says who won."""
        owners, token = self._owned(owner)
        table = self._tables(token.table_id)
        with naming(table.name):
            return end_attempt(table, owners.guard, token, attempt, written)

    def list(self) -> list[OwnerInfo]:
        """Return all owners of all tables."""
        found: list[OwnerInfo] = []
        for table_id in sorted({table_id for table_id, _ in self._records()}):
            try:
                found += self._of(table_id).infos()
            except NotFoundError:
                continue  # the table was dropped
        return sorted(found, key=lambda info: (info.table, info.owner))

    def check_database(self, owner: bytes) -> OwnerToken:
        """Return the token of an owner, unless it is of another database, where its number is another owner's.

        Raises:
            InvalidError: it is.
        """
        token = OwnerToken.from_bytes(owner)
        if token.database is not None and token.database != self._identity.database:
            raise InvalidError(
                "the owner is one of another database; acquire it in this one",
                database=self._identity.database,
                found=token.database,
            )
        return token

    def _owned(self, owner: bytes, table_id: int | None = None) -> tuple[Owners, OwnerToken]:
        """Return the owners of a token's table, after checking that the token is the principal's to use."""
        token = self.check_database(owner)
        owners = self._of(token.table_id if table_id is None else table_id)
        owners.guard.check_token(token, self._principal)
        return owners, token

    def _of(self, table_id: int) -> Owners:
        self._tables(table_id)
        with self._lock:
            return self._owners[table_id]

    def _records(self, prefix: str = PREFIX) -> Sequence[tuple[int, OwnerRecord]]:
        found = []
        for entry in self._store.list(prefix):
            table_id = int(entry.key.split("/")[1])
            found.append((table_id, OwnerRecord.from_bytes(entry.value, table_id=table_id, name=entry.key)))
        return found
