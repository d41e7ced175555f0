"""Backups as a node offers them: begun, read piece by piece, ended, or forgotten when nobody reads them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from penstock.engine.backup.backup import BackupStart
from penstock.engine.backup.session import BackupSession
from penstock.errors import NotFoundError, PermissionDeniedError, UnavailableError
from penstock.model.node.backup import BackupFile, BackupPlan
from penstock.model.node.principal import ActsForPrincipal, may_change
from penstock.runtime.clock import Clock

TTL_MS: Final = 600_000
"""How long a backup lasts that nobody reads: a client that died holds its files no longer."""
BACKUPS_MAX: Final = 4


class Backups:
    """The backups under way at a node. Thread-safe by one lock."""

    def __init__(self, start: BackupStart, clock: Clock, reclaim: Callable[[], None]) -> None:
        """`reclaim` has removed what a backup held and nobody holds any more."""
        self._start = start
        self._clock = clock
        self._reclaim = reclaim
        self._lock = threading.Lock()
        self._sessions: dict[str, BackupSession] = {}
        self._beginning = 0
        start.remove_rubbish()

    def begin(self, target: str, principal: str) -> BackupPlan:
        """Begin a backup of this moment; one of the same principal to the same target was given up, and is over.

        Raises:
            UnavailableError: too many are under way, a bucket cannot be read now, or the disk refused.
        """
        with self._lock:
            given_up = [
                key for key, found in self._sessions.items() if (found.target, found.principal) == (target, principal)
            ]
        self._forget(given_up)
        with self._lock:
            if len(self._sessions) + self._beginning >= BACKUPS_MAX:
                raise UnavailableError(
                    "too many backups are under way; let one end, or wait until those that are not read are forgotten",
                    max=BACKUPS_MAX,
                )
            self._beginning += 1
        try:
            session = self._start.begin(target, principal)
            with self._lock:
                self._sessions[session.plan.backup_id] = session
        finally:
            with self._lock:
                self._beginning -= 1
        return session.plan

    def find(self, backup_id: str, principal: str) -> BackupSession:
        """Return a backup, which is being read.

        Raises:
            NotFoundError: it has ended, or was forgotten, or the node was started since.
            PermissionDeniedError: another principal began it.
        """
        with self._lock:
            session = self._sessions.get(backup_id)
            if session is None:
                raise NotFoundError(
                    "the backup is over: the server was restarted, or it was not read for long; start it again, it goes"
                    " on where it was",
                    backup_id=backup_id,
                )
            if not may_change(principal, session.principal):
                raise PermissionDeniedError("another principal began the backup", backup_id=backup_id)
            session.used_ms = self._clock.monotonic_ms()
            return session

    def end(self, backup_id: str, principal: str) -> None:
        """End a backup; idempotent."""
        try:
            self.find(backup_id, principal)
        except NotFoundError:
            return
        self._forget([backup_id])

    def reap(self) -> None:
        """Forget the backups that nobody reads."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            idle = [key for key, session in self._sessions.items() if now_ms - session.used_ms > TTL_MS]
        self._forget(idle)

    def close(self) -> None:
        """Forget all backups; what was dropped under them is removed at the next start."""
        with self._lock:
            every = list(self._sessions)
        self._drop(every)

    def _forget(self, ids: list[str]) -> None:
        self._drop(ids)
        if ids:
            self._reclaim()

    def _drop(self, ids: list[str]) -> None:
        for backup_id in ids:
            with self._lock:
                session = self._sessions.pop(backup_id, None)
            if session is not None:
                self._start.let_go(backup_id, session.staged, session.held)


class BackupService(ActsForPrincipal):
    """Answers calls about backups; implements `penstock.model.node.facets.backup.BackupFacet`.

    Thread-safe by the lock of `Backups`; holds nothing else that changes.
    """

    def __init__(self, backups: Backups, check_open: Callable[[], None], *, principal: str) -> None:
        super().__init__(principal)
        self.backups = backups
        self._check_open = check_open

    def begin(self, target: str) -> BackupPlan:
        """Fix the files of a backup of all tables at this moment; an earlier one to the same target is over."""
        self._check_open()
        return self.backups.begin(target, self._principal)

    def files(self, backup_id: str, start: int) -> list[BackupFile]:
        """Return files of a backup from that number on, some at a time; none at the end."""
        return self.backups.find(backup_id, self._principal).listed(start)

    def read(self, backup_id: str, path: str, position: int, length: int) -> bytes:
        """Return a piece of a file: fewer bytes than asked for only at its end."""
        return self.backups.find(backup_id, self._principal).read(path, position, length)

    def end(self, backup_id: str) -> None:
        """Let go of the files; idempotent."""
        self.backups.end(backup_id, self._principal)
