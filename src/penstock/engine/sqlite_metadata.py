"""The metadata store of a node that is alone: one SQLite file.

SQLite brings its own file access and its own recovery, so this is the one place beside the key index
that does not go through the `Disk`. The write-ahead log is synced at every commit.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from penstock.engine.metadata import Delete, Entry, Put, Write, check_expected, check_writes
from penstock.errors import (
    ClosedError,
    CorruptionError,
    DirectoryInUseError,
    DiskFullError,
    InternalError,
    PenstockError,
    UnavailableError,
    UnsupportedError,
)

APPLICATION_ID: Final = 0x504E5354
"""`PNST`, in the file's header."""

FORMAT_VERSION: Final = 1
_TABLES: Final = (
    "CREATE TABLE entry (key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE counter (version INTEGER NOT NULL)",
    "INSERT INTO counter VALUES (0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
)
_KINDS: Final[dict[int, tuple[type[PenstockError], str]]] = {
    sqlite3.SQLITE_CORRUPT: (CorruptionError, "the metadata file is damaged; restore it from a copy"),
    sqlite3.SQLITE_NOTADB: (CorruptionError, "this is no metadata file; restore it from a copy"),
    sqlite3.SQLITE_FULL: (DiskFullError, "no space left for metadata; free some"),
    sqlite3.SQLITE_BUSY: (DirectoryInUseError, "another process holds the metadata file"),
    sqlite3.SQLITE_LOCKED: (DirectoryInUseError, "another process holds the metadata file"),
    sqlite3.SQLITE_IOERR: (UnavailableError, "the metadata file cannot be read or written"),
    sqlite3.SQLITE_CANTOPEN: (UnavailableError, "the metadata file cannot be opened"),
    sqlite3.SQLITE_READONLY: (UnavailableError, "the metadata file cannot be written"),
}
_T = TypeVar("_T")


class SqliteMetadataStore:
    """Versioned values in one SQLite file, held by one process. Thread-safe."""

    def __init__(self, path: str | Path) -> None:
        """Open the file, or create it.

        Raises:
            UnsupportedError: a newer version of Penstock made it.
            CorruptionError: it is damaged, or not ours.
            DirectoryInUseError: another process holds it.
            UnavailableError: it cannot be opened.
        """
        self._path = str(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        with self._errors():
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=0)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection

    def get(self, key: str) -> Entry | None:
        """Return what is under a key, None if it is not there.

        Raises:
            ClosedError: the store is closed.
        """
        query = "SELECT key, value, version FROM entry WHERE key = ?"
        found = self._run(lambda connection: connection.execute(query, (key,)).fetchone())
        return None if found is None else Entry(*found)

    def list(self, prefix: str) -> list[Entry]:
        """Return everything whose key starts with a prefix, in key order.

        Raises:
            ClosedError: the store is closed.
        """
        # Keys are printable ASCII: DEL stands behind every character that can follow the prefix.
        query = "SELECT key, value, version FROM entry WHERE key >= ? AND key < ? ORDER BY key"
        bounds = (prefix, prefix + "\x7f")
        return [Entry(*row) for row in self._run(lambda connection: connection.execute(query, bounds).fetchall())]

    def commit(self, writes: Sequence[Write]) -> int:
        """Apply all writes, durably, or none; return the version of the values put.

        Raises:
            ConflictError: a key is not as expected; nothing was changed.
            LimitError: a key or value is too large, or there are too many writes.
            DiskFullError: no space; nothing was changed.
            ClosedError: the store is closed.
        """
        check_writes(writes)
        return self._run(lambda connection: _commit(connection, writes))

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        with _transaction(connection):
            (application_id,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if not application_id and not version and not tables:
                for statement in _TABLES:
                    connection.execute(statement)
                return
        if application_id != APPLICATION_ID:
            raise CorruptionError("this is no metadata file of ours; name another directory", path=self._path)
        if version > FORMAT_VERSION:
            raise UnsupportedError(
                "a newer version of penstock wrote this directory; use that version",
                path=self._path,
                format=version,
                known=FORMAT_VERSION,
            )

    def _run(self, action: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._lock:
            if self._connection is None:
                raise ClosedError("the metadata store is closed", path=self._path)
            with self._errors():
                return action(self._connection)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as cause:
            primary = getattr(cause, "sqlite_errorcode", -1) & 0xFF
            kind, message = _KINDS.get(primary, (InternalError, "sqlite failed"))
            raise kind(message, path=self._path, cause=str(cause)) from cause


def _commit(connection: sqlite3.Connection, writes: Sequence[Write]) -> int:
    with _transaction(connection):
        for write in writes:
            found = connection.execute("SELECT version FROM entry WHERE key = ?", (write.key,)).fetchone()
            check_expected(write, None if found is None else found[0])
        (version,) = connection.execute("UPDATE counter SET version = version + 1 RETURNING version").fetchone()
        puts = [(write.key, write.value, version) for write in writes if isinstance(write, Put)]
        connection.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?, ?)", puts)
        deletes = [(write.key,) for write in writes if isinstance(write, Delete)]
        connection.executemany("DELETE FROM entry WHERE key = ?", deletes)
    return int(version)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
