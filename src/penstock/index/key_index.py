"""The key index, as every implementation offers it. Arrays in, arrays out.

Keys are the encoded key bytes *without* the bucket's prefix; an implementation that shares one
store between buckets adds it. `applied` is the offset up to which the log is reflected; it is
stored together with the keys of the same call, so that whatever survives a crash knows where
replay starts.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.place.bucket import BucketId

Offsets = npt.NDArray[np.int64]


class KeyIndex(Protocol):
    """Primary key to offset, for all buckets of a data directory. Every implementation is thread-safe."""

    def get_many(self, bucket: BucketId, keys: pa.BinaryArray) -> Offsets:
        """Return the offset of each key's live row, -1 where there is none.

        Sorted keys are fastest; duplicates and any order are allowed.
        """

    def apply(self, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        """Point each key at its offset, or remove it where the offset is -1; keys are distinct.

        The bucket's applied offset becomes `applied`, never before all keys of the call are in.
        """

    def apply_run(self, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        """Do what `apply` does, for keys in key order, many at once, and without keeping other threads waiting.

        A crash before the next flush may leave any of the keys and the applied offset as it was.
        """

    def applied(self, bucket: BucketId) -> int:
        """Return the applied offset of the bucket; 0 if it was never set."""

    def prefix(self, bucket: BucketId, prefix: bytes, limit: int | None = None) -> tuple[pa.BinaryArray, Offsets]:
        """Return the keys that start with `prefix`, in key order, and their offsets."""

    def buckets(self) -> list[BucketId]:
        """Return the buckets that have an applied offset, sorted."""

    def flush(self, buckets: Collection[BucketId] | None = None) -> None:
        """Make everything applied durable, or at least what was applied to these buckets."""

    def drop(self, bucket: BucketId) -> None:
        """Forget the bucket: its keys and its applied offset."""

    def close(self) -> None:
        """Release everything; idempotent. Does not promise durability: call `flush` before."""
