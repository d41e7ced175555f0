"""A metadata store in memory: of a node that keeps nothing. It passes the suite that the store on disk passes."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from penstock.engine.metadata.store import Delete, Entry, Put, Write, check_expected, check_writes
from penstock.errors import ClosedError


class MemoryMetadataStore:
    """A metadata store that lasts as long as its object. Thread-safe by one lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, Entry] = {}
        self._version = 0
        self._closed = False

    def get(self, key: str) -> Entry | None:
        """Return what is under a key, None if it is not there."""
        with self._lock:
            self._check_open()
            return self._entries.get(key)

    def list(self, prefix: str) -> list[Entry]:
        """Return everything whose key starts with a prefix, in key order."""
        with self._lock:
            self._check_open()
            return [self._entries[key] for key in sorted(self._entries) if key.startswith(prefix)]

    def commit(self, writes: Sequence[Write]) -> int:
        """Apply all writes or none; return the version of the values put.

        Raises:
            ConflictError: a key is not as expected; nothing was changed.
            LimitError: a key or value is too large, or there are too many writes.
        """
        check_writes(writes)
        with self._lock:
            self._check_open()
            for write in writes:
                entry = self._entries.get(write.key)
                check_expected(write, None if entry is None else entry.version)
            self._version += 1
            for write in writes:
                if isinstance(write, Put):
                    self._entries[write.key] = Entry(write.key, bytes(write.value), self._version)
                elif isinstance(write, Delete):
                    self._entries.pop(write.key, None)
            return self._version

    def close(self) -> None:
        """Refuse every call from now on; idempotent."""
        with self._lock:
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the metadata store is closed")
