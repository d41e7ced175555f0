"""One bucket of the front: its table of fingerprints, and the log of what is not in the index below yet.

Invariants
- Every key in the dirty log is in the table. So what the table does not know, the index below does.
- What calls with few keys wrote is in a dictionary, which lies over both until it is spilled into them.
- The table is *complete* while nothing but the table was ever needed: the index below held no key of
  the bucket when it was first seen, and nothing was forgotten since. Then an unknown key is absent.
- What is written below is a prefix of the calls, the last offset of each key; the applied offset goes
  with the last keys. After a crash, replay meets what a call cut short would have left.
- What a reader found below is remembered only if the table was not begun anew meanwhile, and never over
  what the table knows by then.
- Where keys were found holds for a write of the very same array, while it lives and nothing else was stored.

Lock order: `_draining`, then `_lock`. The index below is never called under `_lock`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec.keys.byte_rows import WORD_BYTES
from penstock.index.front.dirty_log import DirtyLog, join_chunks, latest
from penstock.index.front.front_memory import FrontMemory
from penstock.index.front.growing_table import GrowingTable, Trace
from penstock.index.front.hash_table import UNKNOWN, Prints, slots_for
from penstock.index.front.key_hash import NarrowHash, WideHash, narrow_width, rows_of, whole_words
from penstock.index.key_index import KeyIndex, Offsets
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import NO_OFFSET

_ONE_BY_ONE: Final = 24
"""So many keys are looked up in a loop, which costs less than starting the array operations."""

_FEW_KEYS: Final = 512
"""Up to here a dictionary takes keys for less than the table does."""

_FEW_KEYS_HELD: Final = 4_096
_FEW_KEY_BYTES: Final = 160

_DRAIN_ROWS_MAX: Final = 2_000_000
"""So many are sorted at a time: that takes some 60 bytes of memory for each."""

_SCANS_MAX: Final = 32
"""After so many scans of the dirty keys it would have been cheaper to write them."""


class _Asked(NamedTuple):
    """Keys that were looked up, as those are which a writer is about to point elsewhere."""

    keys: weakref.ref[pa.BinaryArray]
    prints: Prints
    trace: Trace | None


class BucketFront:
    """The front of one bucket. Thread-safe by one lock for its table, and one that lets one drain run at a time."""

    def __init__(self, bucket: BucketId, inner: KeyIndex, wide: WideHash, memory: FrontMemory) -> None:
        self._bucket = bucket
        self._inner = inner
        self._wide = wide
        self._memory = memory
        self._lock = threading.Lock()
        self._draining = threading.Lock()
        self.applied = inner.applied(bucket)
        self._complete = self.applied == 0 and len(inner.prefix(bucket, b"", 1)[0]) == 0
        self._hash: NarrowHash | WideHash | None = None
        self._table = GrowingTable(NarrowHash.words)
        self._table_bytes = 0
        self._begun = 0
        self._dirty = DirtyLog()
        self._few: dict[bytes, int] = {}
        self._few_applied: int | None = None
        self._few_bytes = 0
        self._scans = 0
        self._asked: _Asked | None = None
        self.used_at = 0
        self._count_table()

    @property
    def dirty_bytes(self) -> int:
        """Return the memory of the dirty keys."""
        return self._dirty.nbytes + self._few_bytes

    @property
    def is_dirty(self) -> bool:
        """Tell whether there is something to write to the index below."""
        return bool(self._dirty) or self._few_applied is not None

    @property
    def is_pressed(self) -> bool:
        """Tell whether the table will have to be begun anew soon; for that nothing may be dirty."""
        return not self._memory.fits(self._table_bytes) and self._table.is_nearly_full

    def is_full(self, count: int) -> bool:
        """Tell whether the table has no room for so many more and may not grow."""
        return not self._memory.fits(self._table.growth_bytes(count))

    def get_many(self, keys: pa.BinaryArray) -> Offsets:
        """Return the offset of each key's live row, -1 where there is none."""
        if len(keys) <= _ONE_BY_ONE:
            return self._get_one_by_one(keys)
        with self._lock:
            if len(keys) > _FEW_KEYS:
                self._spill()
            prints = self._prints(keys)
            offsets, trace = self._table.trace(prints)
            if len(keys) > _FEW_KEYS:
                self._asked = _Asked(weakref.ref(keys, self._forget_asked), prints, trace)
            if self._few:
                self._overlay(keys, offsets)
            unknown = offsets == UNKNOWN
            if self._complete or not unknown.any():
                offsets[unknown] = NO_OFFSET
                return offsets
            begun = self._begun
        offsets[unknown] = self._inner.get_many(self._bucket, keys.filter(pa.array(unknown)))
        # The index below was read without the lock. A table begun anew meanwhile may have lost a newer entry to the
        # index, over which this older offset must not lie.
        found = np.flatnonzero(unknown & (offsets != NO_OFFSET))
        with self._lock:
            if len(found) and begun == self._begun and self._has_room(len(found)):
                self._table.remember(tuple(word[found] for word in prints), offsets[found])
                self._count_table()
        return offsets

    def apply(self, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        """Point each key at its offset in memory, and note it among the dirty keys."""
        with self._lock:
            if len(keys) <= _FEW_KEYS:
                self._few.update(zip(keys.to_pylist(), offsets.tolist(), strict=True))
                self._few_applied = applied
                self._count_few(_FEW_KEY_BYTES * len(self._few))
                if len(self._few) >= _FEW_KEYS_HELD:
                    self._spill()
            else:
                self._spill()
                self._store(keys, np.array(offsets, np.int64), applied)
            self.applied = applied

    def prefix(self, prefix: bytes, limit: int | None) -> tuple[pa.BinaryArray, Offsets]:
        """Return the keys that start with `prefix`, in key order, and their offsets."""
        if self._scans >= _SCANS_MAX:
            self.drain()
        with self._lock:
            # Before the index below is read: what is written there meanwhile is in both, never in neither.
            self._spill()
            chunks = self._dirty.chunks()
            self._scans += bool(chunks)
        if not chunks:
            return self._inner.prefix(self._bucket, prefix, limit)
        dirty = join_chunks(chunks)
        starts = pc.starts_with(dirty.keys, pattern=prefix)
        keys, offsets = dirty.keys.filter(starts), dirty.offsets[starts.to_numpy(zero_copy_only=False)]
        # Each dirty key hides at most one below.
        below = self._inner.prefix(self._bucket, prefix, None if limit is None else limit + len(keys))
        keys, offsets = latest(pa.concat_arrays([below[0], keys]), np.concatenate([below[1], offsets]))
        live = np.flatnonzero(offsets != NO_OFFSET)[:limit]
        return keys.take(pa.array(live)), offsets[live]

    def drain(self) -> None:
        """Write what is dirty now to the index below."""
        with self._draining:
            with self._lock:
                self._spill()
                rows = self._dirty.rows
            self._write_dirty(max(rows, 1), self._inner.apply_run)
        self._settle()

    def relieve(self, rows: int, *, wait: bool) -> None:
        """Write some of the oldest dirty keys, for a writer; unless it has to `wait`, not beside a drain under way."""
        if self._draining.acquire(blocking=wait):
            try:
                with self._lock:
                    self._spill()
                self._write_dirty(rows, self._inner.apply)
            finally:
                self._draining.release()

    def forget(self) -> bool:
        """Give the table's memory back; False if it has none to speak of, is in use, or has dirty keys in it."""
        # The caller may hold another front's lock: waiting for this one could be for ever.
        if self._table.is_small or not self._lock.acquire(blocking=False):
            return False
        try:
            return self._begin_anew()
        finally:
            self._lock.release()

    def drop(self) -> None:
        """Forget the bucket, here and below; the front is of no further use."""
        with self._draining:
            self._inner.drop(self._bucket)
            with self._lock:
                self._memory.change(tables=-self._table_bytes, dirty=-self._dirty.nbytes)
                self._count_few(0)
                self._table, self._dirty, self._table_bytes = GrowingTable(NarrowHash.words), DirtyLog(), 0
                self._few, self._few_applied = {}, None
                self._hash, self._complete, self._asked = None, True, None
                self._begun += 1
                self.applied = 0

    def _write_dirty(self, rows: int, write: Callable[[BucketId, pa.BinaryArray, Offsets, int], None]) -> None:
        self._scans = 0
        while rows > 0:
            with self._lock:
                taken = self._dirty.take(min(rows, _DRAIN_ROWS_MAX))
            if taken is None:
                break
            keys, offsets = latest(taken.keys, taken.offsets)
            write(self._bucket, keys, offsets, taken.applied)
            with self._lock:
                self._memory.change(dirty=-self._dirty.written())
            rows -= len(taken.keys)

    def _get_one_by_one(self, keys: pa.BinaryArray) -> Offsets:
        plain: list[bytes] = keys.to_pylist()
        with self._lock:
            offsets = [self._find_one(key) for key in plain]
            complete = self._complete
        found = np.array(offsets, np.int64)
        if UNKNOWN in offsets:
            unknown = found == UNKNOWN
            # Not remembered: that would cost more than asking again, and a write makes them known.
            sought = keys if unknown.all() else keys.filter(unknown)
            found[unknown] = NO_OFFSET if complete else self._inner.get_many(self._bucket, sought)
        return found

    def _find_one(self, key: bytes) -> int:
        offset = self._few.get(key)
        if offset is not None:
            return offset
        words = None if self._hash is None else self._hash.print_of(key)
        return UNKNOWN if words is None else self._table.find_one(words)

    def _settle(self) -> None:
        """Let the table have grown; callers get their turn between the pieces."""
        while self._table.is_moving:
            with self._lock:
                self._table.move_piece()
                self._count_table()

    def _spill(self) -> None:
        """Put the keys of small calls where those of large ones are."""
        if self._few_applied is not None:
            offsets = np.fromiter(self._few.values(), np.int64, len(self._few))
            self._store(pa.array(list(self._few), pa.binary()), offsets, self._few_applied)
            self._few, self._few_applied = {}, None
            self._count_few(0)

    def _overlay(self, keys: pa.BinaryArray, offsets: Offsets) -> None:
        """Put the offsets in that the dictionary has."""
        held = enumerate(map(self._few.get, keys.to_pylist()))
        if found := {row: offset for row, offset in held if offset is not None}:
            offsets[list(found)] = list(found.values())

    def _count_few(self, held_bytes: int) -> None:
        self._memory.change(dirty=held_bytes - self._few_bytes)
        self._few_bytes = held_bytes

    def _store(self, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        if len(keys):
            asked, self._asked = self._asked, None
            known = asked is not None and asked.keys() is keys
            prints, trace = (asked.prints, asked.trace) if asked is not None and known else (self._prints(keys), None)
            if not self._has_room(len(keys)):
                # With dirty keys in it the table grows all the same; the next call is the one to write them.
                self._begin_anew()
                self._reserve(len(keys))
            self._table.store(prints, offsets, trace)
            self._count_table()
        self._memory.change(dirty=self._dirty.append(keys, offsets, applied))

    def _has_room(self, count: int) -> bool:
        """Tell whether the table holds so many more, grown if it may grow."""
        extra = self._table.growth_bytes(count)
        if extra:
            if not self._memory.make_room(extra):
                return False
            self._reserve(count)
        return True

    def _reserve(self, count: int) -> None:
        # In a complete table a key that is absent need not be known to be.
        self._table.reserve(count, keep_absent=not self._complete)
        self._count_table()

    def _begin_anew(self) -> bool:
        if self._dirty:
            return False
        self._replace(GrowingTable(self._table.words))
        self._complete = False
        return True

    def _forget_asked(self, keys: weakref.ref[pa.BinaryArray]) -> None:
        asked = self._asked
        if asked is not None and asked.keys is keys:
            self._asked = None

    def _replace(self, table: GrowingTable) -> None:
        # Their fingerprints may be of another kind from now on.
        self._asked = None
        self._table = table
        self._begun += 1
        self._count_table()

    def _count_table(self) -> None:
        if self._table.nbytes != self._table_bytes:
            self._memory.change(tables=self._table.nbytes - self._table_bytes)
            self._table_bytes = self._table.nbytes

    def _prints(self, keys: pa.BinaryArray) -> Prints:
        """Return the fingerprints of the keys; one of another width than all before makes all of them wide."""
        narrow = self._hash
        if isinstance(narrow, NarrowHash) and narrow.width == WORD_BYTES and (words := whole_words(keys)) is not None:
            return narrow.prints_of_words(words)
        rows = rows_of(keys)
        if len(keys) and self._hash is not self._wide:
            width = narrow_width(rows)
            if self._hash is None and width is not None:
                self._hash = NarrowHash(width)
            elif not isinstance(self._hash, NarrowHash) or self._hash.width != width:
                self._widen()
        return (self._hash or self._wide).prints(rows)

    def _widen(self) -> None:
        table = GrowingTable(self._wide.words, slots_for(self._table.used))
        if isinstance(self._hash, NarrowHash):
            prints, offsets = self._table.entries()
            table.store(self._wide.prints(self._hash.keys(prints)), offsets)
        self._replace(table)
        self._hash = self._wide
