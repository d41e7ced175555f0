"""The key index of a read-only node: made of the rows, bucket by bucket, when keys are first looked up.

The index on the disk belongs to the process that writes. Here a bucket's live keys are kept as fingerprints of 128
bits, sorted, with their offsets: 24 bytes a key. Buckets for which there is no more room are read through for each
lookup instead.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec.keys.byte_rows import ByteRows
from penstock.index.front.key_hash import WideHash, rows_of
from penstock.index.key_index import Offsets
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import NO_OFFSET
from penstock.tablet.tablet import Tablet

KEY_BYTES: Final = 24
Words = npt.NDArray[np.uint64]


class _Keys(NamedTuple):
    """The live keys of a bucket, sorted by the first word of their fingerprints."""

    first: Words
    second: Words
    offsets: Offsets


class ScannedIndex:
    """Finds the live rows of keys in buckets that do not change; implements `penstock.index.key_index.KeyIndex`.

    Thread-safe by one lock, which is held while the keys of a bucket are read.
    """

    def __init__(self, bytes_max: int) -> None:
        self._free_bytes = bytes_max
        self._hash = WideHash()
        self._lock = threading.Lock()
        self._tablets: dict[BucketId, Tablet] = {}
        self._keys: dict[BucketId, _Keys] = {}

    def adopt(self, tablet: Tablet) -> None:
        """Answer for a bucket, as it is now."""
        self._tablets[tablet.bucket] = tablet

    def get_many(self, bucket: BucketId, keys: pa.BinaryArray) -> Offsets:
        """Return the offset of each key's live row, -1 where there is none."""
        known = self._known(bucket)
        if known is None:
            return self._read_through(bucket, keys)
        first, second = self._hash.prints(rows_of(keys))
        found = np.full(len(keys), NO_OFFSET, np.int64)
        at = known.first.searchsorted(first)
        # Two keys may share the first word; then they are neighbours.
        open_rows = np.arange(len(keys))
        while len(open_rows):
            open_rows = open_rows[at[open_rows] < len(known.first)]
            open_rows = open_rows[known.first[at[open_rows]] == first[open_rows]]
            hit = known.second[at[open_rows]] == second[open_rows]
            found[open_rows[hit]] = known.offsets[at[open_rows[hit]]]
            open_rows = open_rows[~hit]
            at[open_rows] += 1
        return found

    def prefix(self, bucket: BucketId, prefix: bytes, limit: int | None = None) -> tuple[pa.BinaryArray, Offsets]:
        """Return the keys that start with `prefix`, in key order, and their offsets: the bucket is read through."""
        keys, offsets = [pa.array([], pa.binary())], [np.empty(0, np.int64)]
        for encoded, begun in self._live(bucket):
            mask = pc.starts_with(encoded, pattern=prefix)
            keys.append(encoded.filter(mask))
            offsets.append(begun[mask.to_numpy(zero_copy_only=False)])
        found = pa.concat_arrays(keys)
        order = pc.sort_indices(found).to_numpy()[:limit]
        return found.take(pa.array(order)), np.concatenate(offsets)[order]

    def apply(self, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        """Do nothing: what the buckets have is all that there is."""

    def apply_run(self, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        """Do nothing: what the buckets have is all that there is."""

    def applied(self, bucket: BucketId) -> int:
        """Return the end of the bucket."""
        tablet = self._tablets.get(bucket)
        return 0 if tablet is None else tablet.view.visible

    def buckets(self) -> list[BucketId]:
        """Return the buckets, sorted."""
        return sorted(self._tablets)

    def flush(self, buckets: Collection[BucketId] | None = None) -> None:
        """Do nothing: nothing is stored."""

    def drop(self, bucket: BucketId) -> None:
        """Forget the bucket."""
        self._tablets.pop(bucket, None)
        self._keys.pop(bucket, None)

    def close(self) -> None:
        """Forget everything; idempotent."""
        self._tablets.clear()
        self._keys.clear()

    def _known(self, bucket: BucketId) -> _Keys | None:
        """Return the keys of a bucket, read if they were not; None if there is no room for them."""
        found = self._keys.get(bucket)
        if found is not None:
            return found
        with self._lock:
            needed = KEY_BYTES * self._tablets[bucket].view.live_rows
            if bucket not in self._keys:
                if needed > self._free_bytes:
                    return None
                self._keys[bucket] = self._read(bucket)
                self._free_bytes -= needed
            return self._keys[bucket]

    def _read(self, bucket: BucketId) -> _Keys:
        words: list[tuple[Words, ...]] = []
        offsets = [np.empty(0, np.int64)]
        for encoded, begun in self._live(bucket):
            words.append(self._hash.prints(ByteRows.of_binary(encoded)))
            offsets.append(begun)
        none = np.empty(0, np.uint64)
        first = np.concatenate([none, *(prints[0] for prints in words)])
        second = np.concatenate([none, *(prints[1] for prints in words)])
        order = np.argsort(first, kind="stable")
        return _Keys(first[order], second[order], np.concatenate(offsets)[order])

    def _read_through(self, bucket: BucketId, keys: pa.BinaryArray) -> Offsets:
        found = np.full(len(keys), NO_OFFSET, np.int64)
        for encoded, begun in self._live(bucket):
            rows = pc.index_in(keys, value_set=encoded)
            hit = rows.is_valid().to_numpy(zero_copy_only=False)
            found[hit] = begun[rows.drop_null().to_numpy()]
        return found

    def _live(self, bucket: BucketId) -> Iterator[tuple[pa.BinaryArray, Offsets]]:
        tablet = self._tablets[bucket]
        for block in tablet.view.scan(tablet.view.visible, tablet.schema.key_fields):
            yield tablet.schema.encode_keys(block.batch), block.offsets
