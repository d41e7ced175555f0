"""The stored format of the RocksDB index: bytes only, no RocksDB here.

    "k" bucket(10) key      -> offset       the live row of a key
    "a" bucket(10)          -> offset       the bucket's applied offset
    "v"                     -> version      4 bytes

`bucket` is `BucketId.prefix()`, big-endian; offsets are 8 bytes, signed, little-endian, so that joined
values are an array. The kinds differ in the first byte: no scan of a bucket meets the other two.
"""

from __future__ import annotations

from itertools import repeat
from operator import is_not
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.index.key_index import Offsets
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import NO_OFFSET

FORMAT_VERSION: Final = 1
VERSION_KEY: Final = b"v"
APPLIED: Final = b"a"
"""What the key of every applied offset begins with."""

_OFFSET_BYTES: Final = 8
_VERSION_BYTES: Final = 4
_FEW_KEYS: Final = 256
"""Up to here the fixed cost of a kernel call, 9 microseconds, is more than a loop's."""

_NOTHING: Final = pa.scalar(b"", pa.binary())


def first_key(bucket: BucketId, prefix: bytes = b"") -> bytes:
    """Return where the keys of the bucket that start with `prefix` begin."""
    return b"k" + bucket.prefix() + prefix


def key_after(first: bytes) -> bytes:
    """Return the least key that is greater than every key which starts with `first`."""
    head = first.rstrip(b"\xff")
    assert head, "the first byte is a kind, and no kind is 0xff"
    return head[:-1] + bytes((head[-1] + 1,))


def applied_key(bucket: BucketId) -> bytes:
    """Return the key of the bucket's applied offset."""
    return APPLIED + bucket.prefix()


def bucket_of(key: bytes) -> BucketId:
    """Return the bucket whose applied offset is stored under a key."""
    return BucketId.from_prefix(key[len(APPLIED) :])


def stored_keys(bucket: BucketId, keys: pa.BinaryArray) -> list[bytes]:
    """Return the keys as they are stored."""
    assert keys.type == pa.binary(), keys.type
    assert keys.null_count == 0
    first = first_key(bucket)
    if len(keys) <= _FEW_KEYS:
        return [first + key for key in keys.to_pylist()]
    stored: list[bytes] = pc.binary_join_element_wise(pa.scalar(first, pa.binary()), keys, _NOTHING).to_pylist()
    return stored


def plain_keys(stored: list[bytes]) -> pa.BinaryArray:
    """Return stored keys without kind and bucket."""
    opening_bytes = len(first_key(BucketId(0, 0, 0)))
    return pc.binary_replace_slice(pa.array(stored, pa.binary()), 0, opening_bytes, b"")


def encode_offset(offset: int) -> bytes:
    """Return one offset as a stored value."""
    return offset.to_bytes(_OFFSET_BYTES, "little", signed=True)


def decode_offset(value: bytes) -> int:
    """Return the offset of one stored value."""
    return int.from_bytes(value, "little", signed=True)


def encode_offsets(offsets: Offsets) -> list[bytes]:
    """Return each offset as a stored value."""
    values: list[bytes] = np.ascontiguousarray(offsets, "<i8").view("V8").tolist()
    return values


def decode_offsets(values: list[Any]) -> Offsets:
    """Return the offsets of stored values, -1 where a value is None."""
    found = b"".join(filter(None, values))
    if len(found) == _OFFSET_BYTES * len(values):
        return np.frombuffer(found, "<i8").astype(np.int64)
    offsets = np.full(len(values), NO_OFFSET, np.int64)
    if found:
        present = np.fromiter(map(is_not, values, repeat(None)), np.bool_, len(values))
        offsets[present] = np.frombuffer(found, "<i8")
    return offsets


def encode_version(version: int) -> bytes:
    """Return the format version as a stored value."""
    return version.to_bytes(_VERSION_BYTES, "little")


def decode_version(value: bytes) -> int:
    """Return the format version of a stored value."""
    return int.from_bytes(value, "little")
