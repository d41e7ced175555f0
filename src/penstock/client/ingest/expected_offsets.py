"""The offsets that a write expects its keys' live rows to have, from whatever a user has them in."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidError
from penstock.model.place.change import OFFSET

EXPECTED: Final = pa.field(OFFSET, pa.int64())
_EXACT_MAX: Final = 1 << 53
"""Beyond this a double no longer holds every whole number."""

_TAKEN: Final = "expect= is a list or an int64 array with one offset, or None for an absent key, for each row"


def with_expected(batch: pa.RecordBatch, expect: object) -> pa.RecordBatch:
    """Return rows beside the offset that each key's row is expected to have, null for none.

    Raises:
        InvalidError: there is not one offset, or None, for each row.
    """
    offsets = _offsets(expect)
    if len(offsets) != batch.num_rows:
        raise InvalidError("expect= has not one offset for each row", rows=batch.num_rows, expect=len(offsets))
    below = pc.index(pc.less(offsets, 0), True).as_py()
    if below >= 0:
        raise InvalidError(
            "an offset is never negative; an absent key is None", row=below, offset=offsets[below].as_py()
        )
    return batch.append_column(EXPECTED, offsets)


def _offsets(expect: Any) -> pa.Array:
    if isinstance(expect, list | tuple):
        return _from_objects(expect)
    if isinstance(expect, np.ma.MaskedArray):
        expect = pa.array(expect.data, mask=np.ma.getmaskarray(expect))
    elif isinstance(expect, np.ndarray) or type(expect).__module__.partition(".")[0] == "pandas":
        if not hasattr(expect, "dtype") or getattr(expect, "ndim", 0) != 1:
            raise InvalidError(_TAKEN, type=type(expect).__name__)
        if expect.dtype == np.dtype(object):
            there = expect.where(expect.notna(), None) if hasattr(expect, "notna") else expect
            return _from_objects([None if _is_nan(value) else value for value in there.tolist()])
        expect = pa.array(expect, from_pandas=True)
    elif not isinstance(expect, pa.Array | pa.ChunkedArray):
        expect = _from_arrow(expect)
    array = expect.combine_chunks() if isinstance(expect, pa.ChunkedArray) else expect
    return _whole(array)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _from_arrow(expect: Any) -> pa.ChunkedArray:
    if hasattr(expect, "__arrow_c_stream__") or hasattr(expect, "__arrow_c_array__"):
        try:
            return pa.chunked_array(expect) if hasattr(expect, "__arrow_c_stream__") else pa.array(expect)
        except (pa.ArrowException, TypeError, ValueError):
            pass
    raise InvalidError(_TAKEN, type=type(expect).__name__)


def _from_objects(values: list[Any] | tuple[Any, ...]) -> pa.Array:
    for kind in set(map(type, values)):
        if kind is not int and kind is not type(None) and not issubclass(kind, np.integer):
            row = next(row for row, value in enumerate(values) if type(value) is kind)
            raise InvalidError(_TAKEN, row=row, value=repr(values[row])[:100])
    try:
        return pa.array(values, pa.int64())
    except (OverflowError, pa.ArrowInvalid) as error:
        row = next(row for row, value in enumerate(values) if value is not None and not -(1 << 63) <= value < 1 << 63)
        raise InvalidError("an offset has at most 63 bits", row=row, offset=values[row]) from error


def _whole(array: pa.Array) -> pa.Array:
    """Return numbers as offsets; doubles come from libraries that have no whole numbers beside nulls."""
    kind = array.type
    if pa.types.is_null(kind) or pa.types.is_integer(kind):
        exact = array
    elif pa.types.is_floating(kind):
        exact = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), array)
        if pc.any(pc.greater_equal(pc.abs(exact), _EXACT_MAX)).as_py():
            raise InvalidError("an offset came as a double that may have lost digits; use an int64 array or Int64")
    else:
        raise InvalidError(_TAKEN, type=str(kind))
    try:
        return exact.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise InvalidError(_TAKEN, type=str(kind), reason=str(error).splitlines()[0]) from error
