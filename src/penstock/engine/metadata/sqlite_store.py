"""The metadata store of a node that is alone: one SQLite file, checked whole when it is opened.

SQLite brings its own file access and its own recovery, so this is the one place beside the key index
that does not go through the `Disk`. The write-ahead log is synced at every commit, then the commit is
marked in a file of its own: only then it has happened.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

from penstock.engine.metadata.chain import entry_digest
from penstock.engine.metadata.sqlite_errors import mapped
from penstock.engine.metadata.sqlite_file import Digests, damaged, open_metadata, read_entry, store_chain, transaction
from penstock.engine.metadata.store import Delete, Entry, Put, Write, check_expected, check_writes
from penstock.errors import ClosedError, UnavailableError

_T = TypeVar("_T")
_Entries: TypeAlias = list[Entry]


class SqliteMetadataStore:
    """Versioned values in one SQLite file, held by one process. Thread-safe by one lock."""

    def __init__(self, path: str | Path, *, expected: str = "") -> None:
        """Open the file, or create it, unless `expected` says what it must describe.

        Raises:
            UnsupportedError: a newer version of Penstock made it.
            CorruptionError: it is damaged, or not ours, or commits of it are lost.
            DirectoryInUseError: another process holds it.
            UnavailableError: it cannot be opened.
        """
        self._path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._unmarked = False
        with mapped(self._path):
            self._connection, self._mark, self._chain, self._digests = open_metadata(self._path, expected=expected)

    def get(self, key: str) -> Entry | None:
        """Return what is under a key, None if it is not there.

        Raises:
            CorruptionError: what is stored there is not what was written.
            ClosedError: the store is closed.
        """
        query = "SELECT key, value, version, digest FROM entry WHERE key = ?"
        return self._run(lambda connection: next(iter(self._checked(connection, query, (key,), [key])), None))

    def list(self, prefix: str) -> list[Entry]:
        """Return everything whose key starts with a prefix, in key order.

        Raises:
            CorruptionError: what is stored there is not what was written.
            ClosedError: the store is closed.
        """
        # Keys are printable ASCII: DEL stands behind every character that can follow the prefix.
        query = "SELECT key, value, version, digest FROM entry WHERE key >= ? AND key < ? ORDER BY key"

        def read(connection: sqlite3.Connection) -> _Entries:
            keys = [key for key in self._digests if key.startswith(prefix)]
            return self._checked(connection, query, (prefix, prefix + "\x7f"), keys)

        return self._run(read)

    def commit(self, writes: Sequence[Write]) -> int:
        """Apply all writes, durably, or none; return the version of the values put.

        Raises:
            ConflictError: a key is not as expected; nothing was changed.
            LimitError: a key or value is too large, or there are too many writes.
            DiskFullError: no space; nothing was changed.
            UnavailableError: the disk refused; after a commit that could not be marked, every one until the node is
                opened again, when the commit may have happened.
            ClosedError: the store is closed.
        """
        check_writes(writes)
        return self._run(lambda connection: self._commit(connection, writes))

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()
                self._mark.close()

    def _commit(self, connection: sqlite3.Connection, writes: Sequence[Write]) -> int:
        if self._unmarked:
            raise UnavailableError("the last metadata commit could not be marked; open the node again", path=self._path)
        for write in writes:
            known = self._digests.get(write.key)
            check_expected(write, None if known is None else known[0])
        version = self._chain.version + 1
        put: Digests = {
            write.key: (version, entry_digest(write.key, write.value, version))
            for write in writes
            if isinstance(write, Put)
        }
        deleted = [write.key for write in writes if isinstance(write, Delete) and write.key in self._digests]
        removed = [self._digests[key][1] for key in (*put, *deleted) if key in self._digests]
        chain = self._chain.after((digest for _, digest in put.values()), removed)
        with transaction(connection):
            rows = [(w.key, w.value, *put[w.key]) for w in writes if isinstance(w, Put)]
            connection.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?)", rows)
            connection.executemany("DELETE FROM entry WHERE key = ?", [(key,) for key in deleted])
            store_chain(connection, chain)
        self._unmarked = True
        self._mark.move(chain)
        self._unmarked = False
        self._chain = chain
        self._digests |= put
        for key in deleted:
            del self._digests[key]
        return version

    def _checked(
        self, connection: sqlite3.Connection, query: str, bounds: tuple[str, ...], keys: Sequence[str]
    ) -> _Entries:
        """Return what a query finds, each as it was written, and none missing of the keys that there are."""
        found = [read_entry(row, self._path) for row in connection.execute(query, bounds)]
        if {key: known for key in keys if (known := self._digests.get(key))} != {
            key: (version, digest) for key, _, version, digest in found
        }:
            damaged(self._path, "entries are missing, or older than they were")
        return [Entry(key, value, version) for key, value, version, _ in found]

    def _run(self, action: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._lock:
            if self._connection is None:
                raise ClosedError("the metadata store is closed", path=str(self._path))
            with mapped(self._path):
                return action(self._connection)
