"""The owners of the fake node: who was acquired, what was asked in whose name, an error on demand."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from penstock.errors import PenstockError
from penstock.model.node.calls import WriteCall, WriteResult
from penstock.model.node.owner import (
    AcquireOwner,
    AttemptEnd,
    EpochBegun,
    EpochStatus,
    OwnerGrant,
    OwnerInfo,
    UndoResult,
)
from penstock.model.node.owner_token import OwnerToken


class FakeOwners:
    """Grants every owner, and writes down every call; `owner_refusal` is raised by the next renewals."""

    owner_calls: list[tuple[str, object]]
    owner_refusal: PenstockError | None = None
    renewed: threading.Event

    def acquire_owner(self, call: AcquireOwner) -> OwnerGrant:
        self.renewed = threading.Event()
        self._note("acquire", call.owner)
        token = OwnerToken(call.table_id, 0, call.owner, 1, 1)
        return OwnerGrant(token.to_bytes(), call.ttl_ms or 60_000, call.columns or ())

    def renew_owner(self, owner: bytes) -> int:
        self.renewed.set()
        if self.owner_refusal is not None:
            raise self.owner_refusal
        return 60_000

    def release_owner(self, owner: bytes) -> None:
        self._note("release", OwnerToken.from_bytes(owner).owner)

    def drop_owner(self, table_id: int, owner: str, *, undo: bool = True) -> UndoResult:
        self._note("drop", owner)
        return UndoResult()

    def list_owners(self) -> list[OwnerInfo]:
        return []

    def begin_epoch(self, owner: bytes, epoch: int) -> EpochBegun:
        self._note("begin", epoch)
        return EpochBegun(EpochStatus.NEW if epoch else EpochStatus.COMMITTED, 2)

    def commit_epoch(
        self,
        owner: bytes,
        epoch: int,
        attempts: Mapping[bytes, int | None] | None = None,
        *,
        replaces: bool = False,
    ) -> None:
        self._note("commit", attempts)

    def undo_owner(self, owner: bytes) -> UndoResult:
        self._note("undo", OwnerToken.from_bytes(owner).owner)
        return UndoResult()

    def leave_epochs(self, owner: bytes) -> UndoResult:
        self._note("leave", OwnerToken.from_bytes(owner).owner)
        return UndoResult()

    def stage(self, call: WriteCall) -> WriteResult:
        self._note("stage", call)
        return WriteResult(call.batch.num_rows, 0, 0)

    def end_attempt(self, owner: bytes, attempt: bytes, written: int) -> AttemptEnd:
        self._note("end", (attempt, written))
        return AttemptEnd(attempt, written)

    def _note(self, call: str, what: object) -> None:
        self.__dict__.setdefault("owner_calls", []).append((call, what))
