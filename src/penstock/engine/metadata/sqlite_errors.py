"""Errors for what SQLite and the disk report of a metadata file: by what the caller does next."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.errors import (
    CorruptionError,
    DirectoryInUseError,
    DiskFullError,
    InternalError,
    PenstockError,
    UnavailableError,
)

RESTORE: Final = "restore the directory, or metadata.db with what begins so, from one copy"
_KINDS: Final[dict[int, tuple[type[PenstockError], str]]] = {
    sqlite3.SQLITE_CORRUPT: (CorruptionError, f"the metadata file is damaged; {RESTORE}"),
    sqlite3.SQLITE_NOTADB: (CorruptionError, f"this is no metadata file; {RESTORE}"),
    sqlite3.SQLITE_FULL: (DiskFullError, "no space left for metadata; free some"),
    sqlite3.SQLITE_BUSY: (DirectoryInUseError, "another process holds the metadata file"),
    sqlite3.SQLITE_LOCKED: (DirectoryInUseError, "another process holds the metadata file"),
    sqlite3.SQLITE_IOERR: (UnavailableError, "the metadata file cannot be read or written"),
    sqlite3.SQLITE_CANTOPEN: (UnavailableError, "the metadata file cannot be opened"),
    sqlite3.SQLITE_READONLY: (UnavailableError, "the metadata file cannot be written"),
}


@contextmanager
def mapped(path: Path) -> Iterator[None]:
    """Turn what SQLite and the disk report into errors that say what to do next."""
    try:
        yield
    except sqlite3.Error as cause:
        kind, message = _KINDS.get(_primary(cause), (InternalError, "sqlite failed"))
        raise kind(message, path=str(path), cause=str(cause)) from cause
    except OSError as cause:
        full = cause.errno in {errno.ENOSPC, errno.EDQUOT}
        kind, message = _KINDS[sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_IOERR]
        raise kind(message, path=str(path), cause=str(cause)) from cause


@contextmanager
def mapped_reading(path: Path) -> Iterator[None]:
    """Take whatever SQLite and Python make of wrong bytes for damage, when a file is read for the first time."""
    try:
        yield
    except (sqlite3.Error, ValueError, OverflowError, TypeError, MemoryError) as cause:
        if isinstance(cause, PenstockError) or (isinstance(cause, sqlite3.Error) and _primary(cause) in _KINDS):
            raise
        raise CorruptionError(
            f"the metadata file is damaged; {RESTORE}", path=str(path), cause=f"{type(cause).__name__}: {cause}"
        ) from cause


def _primary(cause: sqlite3.Error) -> int:
    return int(getattr(cause, "sqlite_errorcode", -1)) & 0xFF
