"""The calls of a node about owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.engine.catalog.identity import Identity
from penstock.engine.owners.service import NodeOwners
from penstock.engine.settings import Settings
from penstock.errors import InvalidError
from penstock.model.node.calls import WriteCall, WriteResult
from penstock.model.node.owner import AcquireOwner, AttemptEnd, EpochBegun, OwnerGrant, OwnerInfo, UndoResult
from penstock.model.node.owner_token import OwnerToken


class OwnerCalls:
    """What an engine answers about owners; implements `penstock.model.node.owner_node.OwnerNode`."""

    owners: NodeOwners
    settings: Settings
    _identity: Identity

    def acquire_owner(self, call: AcquireOwner) -> OwnerGrant:
        """Make somebody the owner of columns; an older holder of the same id is fenced."""
        grant = self.owners.acquire(call)
        token = replace(OwnerToken.from_bytes(grant.token), database=self._identity.database)
        return replace(grant, token=token.to_bytes())

    def renew_owner(self, owner: bytes) -> int:
        """Take a sign of life; return how many milliseconds the owner lasts from now on."""
        self._check_owner(owner)
        return self.owners.renew(owner)

    def release_owner(self, owner: bytes) -> None:
        """Undo what is uncommitted and give the columns back; idempotent."""
        self._check_owner(owner)
        self.owners.release(owner)

    def drop_owner(self, table_id: int, owner: str, *, undo: bool = True) -> UndoResult:
        """Forget an owner, after undoing what is uncommitted of it, or leaving it."""
        return self.owners.drop(table_id, owner, undo=undo)

    def list_owners(self) -> list[OwnerInfo]:
        """Return all owners of all tables."""
        return self.owners.infos()

    def begin_epoch(self, owner: bytes, epoch: int) -> EpochBegun:
        """Open an epoch; everything uncommitted is undone first."""
        self._check_owner(owner)
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
        self._check_owner(owner)
        self.owners.commit(owner, epoch, attempts, replaces=replaces)

    def undo_owner(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and close the epoch."""
        self._check_owner(owner)
        return self.owners.undo(owner)

    def leave_epochs(self, owner: bytes) -> UndoResult:
        """Undo everything uncommitted and let the owner write outside epochs."""
        self._check_owner(owner)
        return self.owners.leave(owner)

    def stage(self, call: WriteCall) -> WriteResult:
        """Make rows durable that appear when their epoch is committed."""
        self.settings.check_write(call)
        self._check_owner(call.owner)
        return self.owners.stage(call)

    def end_attempt(self, owner: bytes, attempt: bytes, written: int) -> AttemptEnd:
        """End an attempt that wrote so many rows; the answer says who won."""
        self._check_owner(owner)
        return self.owners.end_attempt(owner, attempt, written)

    def _check_owner(self, owner: bytes | None) -> None:
        """Refuse the token of an owner in another database: the one of its number here is somebody else."""
        if owner is None:
            return
        database = OwnerToken.from_bytes(owner).database
        if database is not None and database != self._identity.database:
            raise InvalidError(
                "the owner is one of another database; acquire it in this one",
                database=self._identity.database,
                found=database,
            )
