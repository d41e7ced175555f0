"""Variable-length rows as NumPy sees them: one run of bytes, a start and a length per row.

Words are read at any byte position, eight bytes at a time. The bytes are followed by slack, so
that a word may begin at a row's last byte; what lies beyond the row is the caller's to mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

WORD_BYTES = 8

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
        data = np.zeros(int(bounds[-1] - bounds[0]) + WORD_BYTES, np.uint8)
        data[:-WORD_BYTES] = bytes_of(array)[bounds[0] : bounds[-1]]
        return cls(data, bounds[:-1] - bounds[0], np.diff(bounds))

    @property
    def words(self) -> Words:
        """Return the little-endian word at every byte position; a view."""
        return np.ndarray((self.data.size - WORD_BYTES + 1,), "<u8", self.data.data, strides=(1,))


def offsets_of(array: pa.Array) -> Ints:
    """Return the n + 1 offsets of a string, binary, list or map array, its slice respected."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    wide = wide or pa.types.is_large_list(array.type)
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(len(array) + 1, np.int64)
    offsets = np.frombuffer(buffer, np.int64 if wide else np.int32)
    return offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)


def bytes_of(array: pa.Array) -> Bytes:
    """Return the whole data buffer of a string or binary array; offsets point into it."""
    buffer = array.buffers()[2]
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
