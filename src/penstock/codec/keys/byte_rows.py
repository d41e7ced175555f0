"""Variable-length rows as NumPy sees them: one run of bytes, a start and a length per row.

Words are read at any byte position, eight bytes at a time. The bytes are followed by slack, so
that a word may begin at a row's last byte; what lies beyond the row is the caller's to mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat
from pyarrow import lib

WORD_BYTES = 8
_VARIABLE = frozenset((lib.Type_STRING, lib.Type_BINARY, lib.Type_LARGE_STRING, lib.Type_LARGE_BINARY))

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ByteRows:
    """The bytes of an array's rows, ready for arithmetic over all rows at once."""

    data: Bytes
    starts: Ints
    lengths: Ints

    @classmethod
    def of_binary(cls, array: pa.Array) -> ByteRows:
        """Read a string or binary array, 32- or 64-bit, sliced or not."""
        bounds = offsets_of(array)
        return cls(_with_slack(held_bytes_of(array)), bounds[:-1] - bounds[0], np.diff(bounds))

    @classmethod
    def of_records(cls, records: npt.NDArray[Any]) -> ByteRows:
        """Read rows of one width, each the bytes of a record."""
        starts = np.arange(records.size, dtype=np.int64) * records.itemsize
        return cls(_with_slack(records.view(np.uint8)), starts, np.full(records.size, records.itemsize))

    @property
    def words(self) -> Words:
        """Return the little-endian word at every byte position; a view."""
        # A stride of one byte makes words overlap, so a row's words need no copy and no alignment. The slack keeps
        # the last one inside the buffer.
        return np.ndarray((self.data.size - WORD_BYTES + 1,), "<u8", self.data.data, strides=(1,))


def _with_slack(held: Bytes) -> Bytes:
    data = np.empty(held.size + WORD_BYTES, np.uint8)
    data[: held.size] = held
    data[held.size :] = 0
    return data


def offsets_of(array: pa.Array) -> Ints:
    """Return the n + 1 offsets of a string, binary, list or map array, its slice respected."""
    return _stored_offsets(array).astype(np.int64)


def bytes_of(array: pa.Array) -> Bytes:
    """Return the whole data buffer of a string or binary array; offsets point into it."""
    buffer = array.buffers()[2]
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def held_bytes_of(array: pa.Array) -> Bytes:
    """Return the bytes of a string or binary array's own rows, its slice respected."""
    offsets = _stored_offsets(array)
    return bytes_of(array)[offsets[0] : offsets[-1]]


def is_variable(kind: pa.DataType) -> bool:
    """Tell whether the type is a string or binary."""
    return kind.id in _VARIABLE


def _stored_offsets(array: pa.Array) -> npt.NDArray[Any]:
    kind = array.type
    wide = pat.is_large_string(kind) or pat.is_large_binary(kind) or pat.is_large_list(kind)
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(len(array) + 1, np.int64)
    return np.frombuffer(buffer, np.int64 if wide else np.int32)[array.offset : array.offset + len(array) + 1]
