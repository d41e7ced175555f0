"""Backups: what a node says of one that is under way, and what its user gets in the end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A file of a backup under way: where it is restored to, and its size.

    `fingerprint` is the same for the same file of the database in every backup of it, and empty for a file that
    belongs to this backup alone.
    """

    path: str
    bytes: int
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class BackupPlan:
    """A backup under way: its id, the database, the time and tables of its moment, and the number of its files."""

    backup_id: str
    database: str
    created_ms: int
    tables: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BackupResult:
    """A backup that is whole: where it is, what it holds, and how much of that had to be copied now."""

    directory: str
    database: str
    created_at: datetime
    tables: int
    files: int
    bytes: int
    files_copied: int
    bytes_copied: int


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """A backup that was restored, or only verified: `directory` is the new data directory, None if only verified."""

    directory: str | None
    created_at: datetime
    tables: int
    files: int
    bytes: int
