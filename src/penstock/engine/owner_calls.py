"""The calls of a node about owners."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.engine.node_owners import NodeOwners
from penstock.engine.settings import Settings
from penstock.model.calls import WriteCall, WriteResult
from penstock.model.owner import AcquireOwner, AttemptEnd, EpochBegun, OwnerGrant, OwnerInfo, UndoResult


class OwnerCalls:
    """What an engine answers about owners; implements `penstock.model.owner_node.OwnerNode`."""

    owners: NodeOwners
    settings: Settings

    def acquire_owner(self, call: AcquireOwner) -> OwnerGrant:
        """Make somebody the owner of columns; an older holder of the same id is fenced."""
        return self.owners.acquire(call)

    def renew_owner(self, owner: bytes) -> int:
        """Take a sign of life; return how many milliseconds the owner lasts from now on."""
        return self.owners.renew(owner)

    def release_owner(self, owner: bytes) -> None:
        """Undo what is uncommitted and give the columns back; idempotent."""
        self.owners.release(owner)

    def drop_owner(self, table_id: int, owner: str, *, undo: bool = True) -> UndoResult:
        """Forget an owner, after undoing what is uncommitted of it, or leaving it."""
        return self.owners.drop(table_id, owner, undo=undo)

    def list_owners(self) -> list[OwnerInfo]:
        """Return all owners of all tables."""
        return self.owners.infos()

    def begin_epoch(self, owner: bytes, epoch: int) -> EpochBegun:
        """Open an epoch; everything uncommitted is undone first."""
        return self.owners.begin(owner, epoch)

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
        self.owners.commit(owner, epoch, attempts, replaces=replaces)

    def undo_owner(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and close the epoch."""
        return self.owners.undo(owner)

    def leave_epochs(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and let the owner write outside epochs."""
        return self.owners.leave(owner)

    def stage(self, call: WriteCall) -> WriteResult:
        """Make rows durable that appear when their epoch is committed."""
        self.settings.check_write(call)
        return self.owners.stage(call)

    def end_attempt(self, owner: bytes, attempt: bytes, written: int) -> AttemptEnd:
        """End an attempt that wrote so many rows; the answer says who won."""
        return self.owners.end_attempt(owner, attempt, written)
