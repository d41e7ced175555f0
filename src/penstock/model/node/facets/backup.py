"""Backups of a node: a list of files that stay as they are, read piece by piece by the client that keeps the copy."""

from __future__ import annotations

from typing import Protocol

from penstock.model.node.backup import BackupFile, BackupPlan


class BackupFacet(Protocol):
    """Backups of a node. Thread-safe."""

    def begin(self, target: str) -> BackupPlan:
        """Fix the files of a backup of all tables at this moment; they stay until `end`, or until no client reads them.

        `target` is an id of where the copy goes: an earlier backup to the same target is over.
        """

    def files(self, backup_id: str, start: int) -> list[BackupFile]:
        """Return files of a backup from that number on, some at a time; none at the end."""

    def read(self, backup_id: str, path: str, position: int, length: int) -> bytes:
        """Return a piece of a file: fewer bytes than asked for only at its end. The same again gives the same."""

    def end(self, backup_id: str) -> None:
        """Let go of the files; idempotent."""
