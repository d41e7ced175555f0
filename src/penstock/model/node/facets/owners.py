"""Owners of columns of a node, their epochs and attempts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.model.node.calls import (
    WriteCall,
    WriteResult,
)
from penstock.model.node.owner import AcquireOwner, AttemptEnd, EpochBegun, OwnerGrant, OwnerInfo, UndoResult


class OwnersFacet(Protocol):
    """Owners of columns of a node, their epochs and attempts. Thread-safe."""

    def acquire(self, call: AcquireOwner) -> OwnerGrant:
        """Make a job the owner of columns; an older holder of the same id is fenced."""

    def renew(self, owner: bytes) -> int:
        """Take a sign of life; return how many milliseconds the owner lasts from now on."""

    def release(self, owner: bytes) -> None:
        """Undo what is uncommitted and give the columns back; idempotent."""

    def drop(self, table_id: int, owner: str, *, undo: bool = True) -> UndoResult:
        """Forget an owner, after undoing what is uncommitted of it, or leaving it."""

    def list(self) -> list[OwnerInfo]:
        """Return all owners of all tables."""

    def begin(self, owner: bytes, epoch: int) -> EpochBegun:
        """Open an epoch; everything uncommitted is undone first."""

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

    def undo(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and close the epoch."""

    def leave(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and let the owner write outside epochs."""

    def stage(self, call: WriteCall) -> WriteResult:
        """Make rows durable that appear when their epoch is committed."""

    def end_attempt(self, owner: bytes, attempt: bytes, written: int) -> AttemptEnd:
        """End an attempt that wrote so many rows; the answer names the attempt that won."""
