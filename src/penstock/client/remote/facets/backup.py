"""Backups of a server."""

from __future__ import annotations

from typing import Final

from penstock.client.remote.calls import RemoteCalls
from penstock.model.node.backup import BackupFile, BackupPlan
from penstock.wire import calls as wire

BEGIN_WAIT_MS: Final = 600_000
"""How long a server may take to write down what is in no file of a table yet."""


class RemoteBackup:
    """Backups of a server. Implements `penstock.model.node.facets.backup.BackupFacet`."""

    def __init__(self, calls: RemoteCalls) -> None:
        self._calls = calls

    def begin(self, target: str) -> BackupPlan:
        """Fix the files of a backup of all tables at this moment; an earlier one to the same target is over."""
        return self._calls.ask(wire.BEGIN_BACKUP, wait_ms=BEGIN_WAIT_MS, target=target)

    def files(self, backup_id: str, start: int) -> list[BackupFile]:
        """Return files of a backup from that number on, some at a time; none at the end."""
        return self._calls.ask(wire.BACKUP_FILES, backup_id=backup_id, start=start)

    def read(self, backup_id: str, path: str, position: int, length: int) -> bytes:
        """Return a piece of a file: fewer bytes than asked for only at its end."""
        return self._calls.ask(
            wire.READ_BACKUP, affinity="backup", backup_id=backup_id, path=path, position=position, length=length
        )

    def end(self, backup_id: str) -> None:
        """Let go of the files; idempotent."""
        self._calls.ask(wire.END_BACKUP, backup_id=backup_id)
