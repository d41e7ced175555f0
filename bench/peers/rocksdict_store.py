"""Bare RocksDB in this process, by rocksdict: the bound of the key index. Keys and 8-byte values only."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import rocksdict

from bench.peers.library import Library


class Rocksdict(Library):
    """The library."""

    name = "bare rocksdict"
    bounds = frozenset(("writes", "lookups"))

    def settings(self) -> str:
        """Return version and settings."""
        return (
            f"{version('rocksdict')}; get and put of 8-byte values under the same keys, sorted, write-ahead log off, "
            "write buffer 64 MB: what an index does, and no rows"
        )

    def session(self) -> RocksdictSession:
        """Name the directory."""
        return RocksdictSession(self.directory)


class RocksdictSession:
    """One store at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stores = 0
        self._db: rocksdict.Rdict | None = None
        self._unlogged = rocksdict.WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign,assignment]

    def create(self, *, changelog: bool = False) -> None:
        """Make an empty store."""
        self.close()
        self._stores += 1
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(64 << 20)
        self._db = rocksdict.Rdict(str(self._directory / f"bare{self._stores}"), options)

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Get and put each key, as an index must."""
        assert self._db is not None
        ids = batch.column("id").to_numpy().copy()
        ids.sort()
        keys = ids.astype(">i8").view("V8").tolist()
        self._db.get(keys)
        puts = rocksdict.WriteBatch(raw_mode=True)
        for key in keys:
            puts.put(key, key)
        self._db.write(puts, self._unlogged)

    def lookup(self, ids: Sequence[int]) -> int:
        """Get each key."""
        assert self._db is not None
        values = self._db.get([number.to_bytes(8) for number in ids])
        assert values is not None
        return sum(value is not None for value in values)

    def close(self) -> None:
        """Close the store."""
        if self._db is not None:
            self._db.close()
            self._db = None


PEER = Rocksdict()
