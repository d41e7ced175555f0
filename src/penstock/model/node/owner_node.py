"""What a node offers to owners: the part of `penstock.model.node.node.Node` that is theirs.

An owner is named by its token: that of its handle for the calls of the handle, that of an epoch for
the calls of its tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.model.node.calls import WriteCall, WriteResult
from penstock.model.node.owner import AcquireOwner, AttemptEnd, EpochBegun, OwnerGrant, OwnerInfo, UndoResult


class OwnerNode(Protocol):
    """The owner calls of a node. Thread-safe."""

    def acquire_owner(self, call: AcquireOwner) -> OwnerGrant:
        """Make somebody the owner of columns; an older holder of the same id is fenced."""

    def renew_owner(self, owner: bytes) -> int:
        """Take a sign of life; return how many milliseconds the owner lasts from now on."""

    def release_owner(self, owner: bytes) -> None:
        """Undo what is uncommitted and give the columns back; idempotent."""

    def drop_owner(self, table_id: int, owner: str, *, undo: bool = True) -> UndoResult:
        """Forget an owner, after undoing what is uncommitted of it, or leaving it."""

    def list_owners(self) -> list[OwnerInfo]:
        """Return all owners of all tables."""

    def begin_epoch(self, owner: bytes, epoch: int) -> EpochBegun:
        """Open an epoch; everything uncommitted is undone first."""

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

    def undo_owner(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and close the epoch."""

    def leave_epochs(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and let the owner write outside epochs."""

    def stage(self, call: WriteCall) -> WriteResult:
        """Make rows durable that appear when their epoch is committed."""

    def end_attempt(self, owner: bytes, attempt: bytes, written: int) -> AttemptEnd:
        """End an attempt that wrote so many rows; the answer says who won."""
