"""Owners of columns at a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.client.remote.calls import RemoteCalls
from penstock.model.node.calls import (
    WriteCall,
    WriteResult,
)
from penstock.model.node.owner import AcquireOwner, AttemptEnd, EpochBegun, OwnerGrant, OwnerInfo, UndoResult
from penstock.wire import calls as wire
from penstock.wire.plain import plain_batch


class RemoteOwners:
    """Owners of columns at a server. Implements `penstock.model.node.facets.owners.OwnersFacet`."""

    def __init__(self, calls: RemoteCalls) -> None:
        self._calls = calls

    def acquire(self, call: AcquireOwner) -> OwnerGrant:
        """Make a job the owner of columns; an older holder of the same id is fenced."""
        return self._calls.ask(wire.ACQUIRE_AN_OWNER, call=call)

    def renew(self, owner: bytes) -> int:
        """Take a sign of life; return how many milliseconds the owner lasts from now on."""
        return self._calls.ask(wire.RENEW_OWNER, owner=owner)

    def release(self, owner: bytes) -> None:
        """Undo what is uncommitted and give the columns back; idempotent."""
        self._calls.ask(wire.RELEASE_OWNER, owner=owner)

    def drop(self, table_id: int, owner: str, *, undo: bool = True) -> UndoResult:
        """Forget an owner, after undoing what is uncommitted of it, or leaving it."""
        return self._calls.ask(wire.DROP_OWNER, table_id=table_id, owner=owner, undo=undo)

    def list(self) -> list[OwnerInfo]:
        """Return all owners of all tables."""
        return self._calls.ask(wire.LIST_OWNERS)

    def begin(self, owner: bytes, epoch: int) -> EpochBegun:
        """Open an epoch; everything uncommitted is undone first."""
        return self._calls.ask(wire.BEGIN_EPOCH, owner=owner, epoch=epoch)

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
        self._calls.ask(wire.COMMIT_EPOCH, owner=owner, epoch=epoch, attempts=attempts, replaces=replaces)

    def undo(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and close the epoch."""
        return self._calls.ask(wire.UNDO_OWNER, owner=owner)

    def leave(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and let the owner write outside epochs."""
        return self._calls.ask(wire.LEAVE_EPOCHS, owner=owner)

    def stage(self, call: WriteCall) -> WriteResult:
        """Make rows durable that appear when their epoch is committed."""
        plain = replace(call, batch=plain_batch(call.batch))
        return self._calls.ask(wire.STAGE, rows=plain.batch.num_rows, call=plain)

    def end_attempt(self, owner: bytes, attempt: bytes, written: int) -> AttemptEnd:
        """End an attempt that wrote so many rows; the answer names the attempt that won."""
        return self._calls.ask(wire.END_ATTEMPT, owner=owner, attempt=attempt, written=written)
