"""Fixed-width Arrow columns as NumPy arrays and back, without a copy where the layout allows.

Slices are respected. What stands under a null is returned as it is.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.keys.byte_rows import Words

DECIMAL_LIMBS = 2
_BOOL: Final = pa.bool_().id
_PLAIN: Final = {
    kind.id: np.dtype(storage)
    for storage, kinds in (
        (np.int8, [pa.int8()]),
        (np.int16, [pa.int16()]),
        (np.int32, [pa.int32(), pa.date32(), pa.time32("s")]),
        (np.int64, [pa.int64(), pa.date64(), pa.time64("us"), pa.timestamp("us"), pa.duration("us")]),
        (np.uint8, [pa.uint8()]),
        (np.uint16, [pa.uint16()]),
        (np.uint32, [pa.uint32()]),
        (np.uint64, [pa.uint64()]),
        (np.float16, [pa.float16()]),
        (np.float32, [pa.float32()]),
        (np.float64, [pa.float64()]),
    )
    for kind in kinds
}
"""The storage of numbers, dates and times, by the id of their type: its unit or zone is of no account."""
_STORAGE: Final = {**_PLAIN, _BOOL: np.dtype(np.uint8)}


def values_of(array: pa.Array) -> npt.NDArray[Any]:
    """Return the stored integers of a bool, integer, float, date or timestamp array."""
    if array.type.id == _BOOL:
        array = array.cast(pa.uint8())
    return _buffer_of(array, storage_of(array.type), per_row=1)


def decimal_limbs(array: pa.Array) -> Words:
    """Return the unscaled values of a decimal128 array, as n rows of (low, high) words."""
    return _buffer_of(array, np.dtype(np.uint64), per_row=DECIMAL_LIMBS).reshape(-1, DECIMAL_LIMBS)


def array_of(kind: pa.DataType, values: npt.NDArray[Any]) -> pa.Array:
    """Return values in the storage of the type as an array of that type, without nulls."""
    if kind.id == _BOOL:
        return pa.array(values.astype(np.bool_))
    rows = values.size if kind.id in _PLAIN else values.size // DECIMAL_LIMBS
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(np.ascontiguousarray(values))], null_count=0)


def is_plain(array: pa.Array) -> bool:
    """Tell whether an array is numbers, dates or timestamps without nulls: nothing but values, one beside the other."""
    return bool(array.null_count == 0 and array.type.id in _PLAIN)


def taken(array: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
    """Return the values of these rows; of plain arrays quicker than Arrow does it, which checks each row."""
    return array_of(array.type, values_of(array).take(rows)) if is_plain(array) else array.take(pa.array(rows))


def storage_of(kind: pa.DataType) -> np.dtype[Any]:
    """Return the dtype in which a fixed-width type of up to eight bytes is stored; one byte for bool."""
    return _STORAGE[kind.id]


def _buffer_of(array: pa.Array, dtype: np.dtype[Any], per_row: int) -> npt.NDArray[Any]:
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype)[array.offset * per_row : (array.offset + len(array)) * per_row]
