"""rbm32, rbm64: unions of Roaring bitmaps in the portable format, nulls skipped.

Bytes from outside are read and checked in full before they are stored, and stored in one form, the
smallest: equal sets have equal bytes, and whatever follows a bitmap is dropped. The library works
on one bitmap at a time, so these functions go through the rows that hold one.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from penstock.errors import InvalidError, LimitError
from penstock.tablet.merge.aggregates.growth import check_growth
from penstock.tablet.merge.aggregates.inputs import Inputs, SlotRefusedError, either
from penstock.tablet.merge.aggregates.segments import NO_ROW, Mask

B = TypeVar("B", BitMap, BitMap64)


def fold_rbm32(inputs: Inputs) -> pa.Array:
    """Unite bitmaps of 32-bit integers."""
    return _fold(inputs, BitMap)


def fold_rbm64(inputs: Inputs) -> pa.Array:
    """Unite bitmaps of 64-bit integers."""
    return _fold(inputs, BitMap64)


def replace_rbm32(inputs: Inputs) -> pa.Array:
    """Put the last bitmap of 32-bit integers, or null, in the place of what is there."""
    return _replace(inputs, BitMap)


def replace_rbm64(inputs: Inputs) -> pa.Array:
    """Put the last bitmap of 64-bit integers, or null, in the place of what is there."""
    return _replace(inputs, BitMap64)


def _fold(inputs: Inputs, kind: type[B]) -> pa.Array:
    stored: list[bytes | None] = inputs.old.to_pylist()
    places = np.full(inputs.segments.count, NO_ROW)
    written: list[bytes] = []
    for slot, held in groupby(_given(inputs, inputs.counted), key=itemgetter(0)):
        bitmaps = [_read(kind, content, slot, inputs.value_bytes_max) for _, content in held]
        before = stored[slot]
        if before is not None:
            old = kind.deserialize(before)
            united = kind.union(old, *bitmaps)
            if united == old:
                continue
        else:
            united = kind.union(*bitmaps)
        places[slot] = len(written)
        written.append(_written(united))
    return check_growth(inputs, either(places, pa.array(written, inputs.column.type), inputs.old))


def _replace(inputs: Inputs, kind: type[B]) -> pa.Array:
    last = np.zeros(inputs.segments.rows, np.bool_)
    last[inputs.segments.last(None)] = True
    counted = last if inputs.counted is None else last & inputs.counted
    places = np.full(inputs.segments.count, NO_ROW)
    written: list[bytes] = []
    for slot, content in _given(inputs, counted):
        places[slot] = len(written)
        written.append(_written(_read(kind, content, slot, inputs.value_bytes_max)))
    values = pa.array(written, inputs.column.type)
    return check_growth(inputs, values.take(pa.array(places, mask=places == NO_ROW)))


def _given(inputs: Inputs, mask: Mask | None) -> list[tuple[int, bytes]]:
    """Return the slot and the bytes of each row that the mask holds for."""
    rows = np.arange(inputs.segments.rows) if mask is None else np.flatnonzero(mask)
    return list(zip(inputs.segments.slots[rows].tolist(), inputs.values.take(pa.array(rows)).to_pylist(), strict=True))


def _read(kind: type[B], content: bytes, slot: int, bytes_max: int) -> B:
    if len(content) > bytes_max:
        raise SlotRefusedError(
            slot, LimitError, "the bitmap is larger than aggregate.max-value-bytes", bytes=len(content)
        )
    try:
        return kind.deserialize(content)
    except (ValueError, IndexError) as wrong:
        raise SlotRefusedError(
            slot, InvalidError, "the value is no Roaring bitmap in the portable format", bytes=len(content)
        ) from wrong


def _written(bitmap: BitMap | BitMap64) -> bytes:
    bitmap.run_optimize()
    return bitmap.serialize()
