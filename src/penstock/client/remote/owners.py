"""The owner calls of a server: the part of `RemoteNode` that is theirs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from penstock.model.node.calls import WriteCall, WriteResult
from penstock.model.node.owner import AcquireOwner, AttemptEnd, EpochBegun, OwnerGrant, OwnerInfo, UndoResult
from penstock.wire import calls
from penstock.wire.call import Call
from penstock.wire.plain import plain_batch

R = TypeVar("R")


class RemoteOwners(ABC):
    """Asks a server; implements `penstock.model.node.owner_node.OwnerNode`."""

    @abstractmethod
    def _ask(self, asked: Call[R], /, *, rows: int = 0, wait_ms: int = 0, **arguments: Any) -> R:
        """Send a request and return what the answer says."""

    def acquire_owner(self, call: AcquireOwner) -> OwnerGrant:
        """Make somebody the owner of columns; an older holder of the same id is fenced."""
        return self._ask(calls.ACQUIRE_AN_OWNER, call=call)

    def renew_owner(self, owner: bytes) -> int:
        """Take a sign of life; return how many milliseconds the owner lasts from now on."""
        return self._ask(calls.RENEW_OWNER, owner=owner)

    def release_owner(self, owner: bytes) -> None:
        """Undo what is uncommitted and give the columns back; idempotent."""
        self._ask(calls.RELEASE_OWNER, owner=owner)

    def drop_owner(self, table_id: int, owner: str, *, undo: bool = True) -> UndoResult:
        """Forget an owner, after undoing what is uncommitted of it, or leaving it."""
        return self._ask(calls.DROP_OWNER, table_id=table_id, owner=owner, undo=undo)

    def list_owners(self) -> list[OwnerInfo]:
        """Return all owners of all tables."""
        return self._ask(calls.LIST_OWNERS)

    def begin_epoch(self, owner: bytes, epoch: int) -> EpochBegun:
        """Open an epoch; everything uncommitted is undone first."""
        return self._ask(calls.BEGIN_EPOCH, owner=owner, epoch=epoch)

    def commit_epoch(
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
        self._ask(calls.COMMIT_EPOCH, owner=owner, epoch=epoch, attempts=attempts, replaces=replaces)

    def undo_owner(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and close the epoch."""
        return self._ask(calls.UNDO_OWNER, owner=owner)

    def leave_epochs(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and let the owner write outside epochs."""
        return self._ask(calls.LEAVE_EPOCHS, owner=owner)

    def stage(self, call: WriteCall) -> WriteResult:
        """Make rows durable that appear when their epoch is committed."""
        plain = replace(call, batch=plain_batch(call.batch))
        return self._ask(calls.STAGE, rows=plain.batch.num_rows, call=plain)

    def end_attempt(self, owner: bytes, attempt: bytes, written: int) -> AttemptEnd:
        """End an attempt that wrote so many rows; the answer says who won."""
        return self._ask(calls.END_ATTEMPT, owner=owner, attempt=attempt, written=written)
