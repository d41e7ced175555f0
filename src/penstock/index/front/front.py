"""A fast front for a key index: writes go to memory, and to the index below when it is flushed.

The index below is what survives. While the process runs, the front answers; after a crash the index
below says up to where it got, and the log is replayed from there, as after any crash. So durability
is not the front's concern, order is: see `bucket_front.py`.

Memory is bounded. A log of dirty keys over its limit is written by the writers that fill it; a table
that may not grow is begun anew when its keys are all below, and what it forgot is asked for there.
"""

from __future__ import annotations

import threading
from collections.abc import Collection

import pyarrow as pa

from penstock.errors import ClosedError
from penstock.index.front.bucket_front import BucketFront
from penstock.index.front.front_memory import FrontMemory
from penstock.index.front.front_settings import FrontSettings
from penstock.index.front.key_hash import WideHash
from penstock.index.key_index import KeyIndex, Offsets
from penstock.model.place.bucket import BucketId


class FrontedKeyIndex:
    """Primary key to offset in memory, over an index that survives.

    Thread-safe: each bucket's front has a lock, and one more is held while a front is opened.
    """

    def __init__(self, inner: KeyIndex, settings: FrontSettings | None = None) -> None:
        self._inner = inner
        self._settings = settings or FrontSettings()
        self._wide = WideHash()
        self._memory = FrontMemory(self._settings.table_bytes_max, self._give_up)
        self._fronts: dict[BucketId, BucketFront] = {}
        self._opening = threading.Lock()
        self._closed = False
        self._calls = 0

    def get_many(self, bucket: BucketId, keys: pa.BinaryArray) -> Offsets:
        """Return the offset of each key's live row, -1 where there is none."""
        return self._front(bucket).get_many(keys)

    def apply(self, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        """Point each key at its offset, or remove it where the offset is -1, in memory."""
        assert len(keys) == len(offsets)
        front = self._front(bucket)
        if front.is_pressed or self._memory.dirty_bytes > self._settings.dirty_bytes_max:
            self._relieve(front, len(keys))
        front.apply(keys, offsets, applied)

    def apply_run(self, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        """Point many sorted keys at their offsets, or remove them, in memory."""
        self.apply(bucket, keys, offsets, applied)

    def applied(self, bucket: BucketId) -> int:
        """Return the applied offset of the bucket; 0 if it was never set."""
        self._check_open()
        front = self._fronts.get(bucket)
        return self._inner.applied(bucket) if front is None else front.applied

    def prefix(self, bucket: BucketId, prefix: bytes, limit: int | None = None) -> tuple[pa.BinaryArray, Offsets]:
        """Return the keys that start with `prefix`, in key order, and their offsets."""
        return self._front(bucket).prefix(prefix, limit)

    def buckets(self) -> list[BucketId]:
        """Return the buckets that have an applied offset, in memory or below, sorted."""
        self._check_open()
        return sorted({*self._inner.buckets(), *self._fronts})

    def flush(self, buckets: Collection[BucketId] | None = None) -> None:
        """Write what was applied, or what was applied to these buckets, to the index below, and make it durable there.

        After the index was made anew much waits to be written: who needs some buckets does not wait for all.
        """
        self._check_open()
        for bucket, front in list(self._fronts.items()):
            if front.is_dirty and (buckets is None or bucket in buckets):
                front.drain()
        self._inner.flush()

    def drop(self, bucket: BucketId) -> None:
        """Forget the bucket, in memory and below."""
        self._check_open()
        front = self._fronts.get(bucket)
        if front is None:
            self._inner.drop(bucket)
            return
        front.drop()
        with self._opening:
            self._fronts.pop(bucket, None)

    def close(self) -> None:
        """Release everything; idempotent. What was not flushed may be lost."""
        self._closed = True
        self._inner.close()
        self._fronts.clear()

    def _front(self, bucket: BucketId) -> BucketFront:
        self._check_open()
        self._calls += 1
        front = self._fronts.get(bucket)
        if front is None:
            with self._opening:
                front = self._fronts.get(bucket)
                if front is None:
                    front = self._fronts[bucket] = BucketFront(bucket, self._inner, self._wide, self._memory)
        front.used_at = self._calls
        return front

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the index is closed; open it again")

    def _relieve(self, front: BucketFront, count: int) -> None:
        """Write some dirty keys below where memory asks for it, before there are so many more."""
        rows, limit = max(self._settings.drain_rows_max, 2 * count), self._settings.dirty_bytes_max
        if front.is_pressed:
            front.relieve(rows, wait=front.is_full(count))
        if self._memory.dirty_bytes > limit:
            largest = max(list(self._fronts.values()), key=lambda each: each.dirty_bytes, default=front)
            # Beside a flush, which frees more than a writer would, there may be up to twice as many.
            largest.relieve(rows, wait=self._memory.dirty_bytes > 2 * limit)

    def _give_up(self) -> bool:
        """Give up the table of the bucket that was not used for longest, of those that can do without."""
        fronts = sorted(self._fronts.values(), key=lambda each: each.used_at)
        return any(front.forget() for front in fronts)
