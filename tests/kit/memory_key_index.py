"""A key index in memory, for tests: it crashes and goes stale the way the real one may.

Writes go in batches of at most `chunk_keys` keys, the applied offset in the last of a call. A flush
makes everything durable; a crash keeps what was durable and any prefix of the write batches since.
The keys of a run are durable at once, before older writes that have none of its keys.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.errors import ClosedError
from penstock.index.key_index import Offsets
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import NO_OFFSET

CHUNK_KEYS: Final = 2_000


@dataclass(frozen=True, slots=True)
class _Batch:
    """One atomic write: keys of a bucket with their offsets, its applied offset, or its end."""

    bucket: BucketId
    keys: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    applied: int | None = None
    drops: bool = False


class _State:
    """What an index holds at one moment."""

    def __init__(self) -> None:
        self.rows: dict[BucketId, dict[bytes, int]] = {}
        self.applied: dict[BucketId, int] = {}

    def write(self, batch: _Batch) -> None:
        if batch.drops:
            self.rows.pop(batch.bucket, None)
            self.applied.pop(batch.bucket, None)
            return
        rows = self.rows.setdefault(batch.bucket, {})
        for key, offset in zip(batch.keys, batch.offsets, strict=True):
            if offset == NO_OFFSET:
                rows.pop(key, None)
            else:
                rows[key] = offset
        if batch.applied is not None:
            self.applied[batch.bucket] = batch.applied

    def copy(self) -> _State:
        copied = _State()
        copied.rows = {bucket: dict(rows) for bucket, rows in self.rows.items()}
        copied.applied = dict(self.applied)
        return copied


class MemoryKeyIndex:
    """Primary key to offset in dictionaries. Thread-safe."""

    def __init__(self, chunk_keys: int = CHUNK_KEYS) -> None:
        assert chunk_keys > 0
        self._chunk_keys = chunk_keys
        self._lock = threading.Lock()
        self._closed = False
        self._stale, self._durable, self._live = _State(), _State(), _State()
        # Batches that lead from the stale state to the durable one, and from there to the live one.
        self._flushed: list[_Batch] = []
        self._pending: list[_Batch] = []

    def get_many(self, bucket: BucketId, keys: pa.BinaryArray) -> Offsets:
        """Return the offset of each key's live row, -1 where there is none."""
        with self._lock:
            rows = self._open().rows.get(bucket, {})
            return np.fromiter((rows.get(key, NO_OFFSET) for key in keys.to_pylist()), np.int64, len(keys))

    def apply(self, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        """Point each key at its offset, or remove it where the offset is -1, in chunks."""
        assert len(keys) == len(offsets)
        plain, targets = keys.to_pylist(), offsets.tolist()
        for start in range(0, max(len(plain), 1), self._chunk_keys):
            end = start + self._chunk_keys
            mark = applied if end >= len(plain) else None
            self._write(_Batch(bucket, plain[start:end], targets[start:end], mark))

    def apply_run(self, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        """Point many sorted keys at their offsets, or remove them; they are durable at once, `applied` is not."""
        plain: list[bytes] = keys.to_pylist()
        assert plain == sorted(set(plain))
        batch = _Batch(bucket, plain, offsets.tolist())
        with self._lock:
            self._open().write(batch)
            if any(_meets(each, bucket, plain) for each in self._pending):
                self._settle()
            self._durable.write(batch)
            self._flushed.append(batch)
        self.apply(bucket, keys[:0], offsets[:0], applied)

    def applied(self, bucket: BucketId) -> int:
        """Return the applied offset of the bucket; 0 if it was never set."""
        with self._lock:
            return self._open().applied.get(bucket, 0)

    def prefix(self, bucket: BucketId, prefix: bytes, limit: int | None = None) -> tuple[pa.BinaryArray, Offsets]:
        """Return the keys that start with `prefix`, in key order, and their offsets."""
        with self._lock:
            rows = self._open().rows.get(bucket, {})
            found = sorted(key for key in rows if key.startswith(prefix))[:limit]
            return pa.array(found, pa.binary()), np.array([rows[key] for key in found], np.int64)

    def buckets(self) -> list[BucketId]:
        """Return the buckets that have an applied offset, sorted."""
        with self._lock:
            return sorted(self._open().applied)

    def flush(self, buckets: Collection[BucketId] | None = None) -> None:
        """Make everything applied durable: every later crash keeps it."""
        with self._lock:
            self._open()
            for batch in self._flushed:
                self._stale.write(batch)
            self._flushed = []
            self._settle()

    def drop(self, bucket: BucketId) -> None:
        """Forget the bucket: its keys and its applied offset."""
        self._write(_Batch(bucket, drops=True))

    def close(self) -> None:
        """Refuse every further call; idempotent. What a crash would leave can still be asked for."""
        with self._lock:
            self._closed = True

    def after_crash(self, seed: int) -> MemoryKeyIndex:
        """Return a new index that holds what could have survived: the last flush and some batches since."""
        with self._lock:
            survivor = MemoryKeyIndex(self._chunk_keys)
            survivor._durable = self._durable.copy()
            for batch in self._pending[: random.Random(seed).randint(0, len(self._pending))]:
                survivor._durable.write(batch)
            survivor._stale, survivor._live = survivor._durable.copy(), survivor._durable.copy()
            return survivor

    def lose(self) -> None:
        """Become empty, as if the directory had been removed."""
        with self._lock:
            self._become(_State())

    def roll_back(self) -> None:
        """Become what the flush before the last one left, as if an old copy had been put in place."""
        with self._lock:
            self._become(self._stale)

    def _open(self) -> _State:
        if self._closed:
            raise ClosedError("the index is closed; open it again")
        return self._live

    def _write(self, batch: _Batch) -> None:
        with self._lock:
            self._open().write(batch)
            self._pending.append(batch)

    def _settle(self) -> None:
        for batch in self._pending:
            self._durable.write(batch)
        self._flushed, self._pending = self._flushed + self._pending, []

    def _become(self, state: _State) -> None:
        self._stale, self._durable, self._live = state.copy(), state.copy(), state.copy()
        self._flushed, self._pending = [], []


def _meets(batch: _Batch, bucket: BucketId, run: list[bytes]) -> bool:
    """Tell whether a batch has to be durable before a run of sorted keys is."""
    if batch.bucket != bucket or not run:
        return False
    return batch.drops or any(run[0] <= key <= run[-1] for key in batch.keys)
