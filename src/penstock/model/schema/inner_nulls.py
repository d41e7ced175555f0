"""Nulls inside nested values where the type allows none: `STRUCT<a: INT NOT NULL>`, `ARRAY<INT NOT NULL>`.

Arrow does not look for them, neither when it builds an array nor when it validates one; but readers
believe the type, so nothing that breaks it may be stored.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow


def forbids_inner_nulls(kind: pa.DataType) -> bool:
    """Tell whether a type says of something inside it that it is never null."""
    return any(not field.nullable or forbids_inner_nulls(field.type) for field in _children(kind))


def first_inner_null(array: pa.Array) -> int | None:
    """Return the first row that has a null inside where its type allows none; None if no row has."""
    if not _has_inner_null(array):
        return None
    good, bad = 0, len(array)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _has_inner_null(array.slice(0, middle)):
            bad = middle
        else:
            good = middle
    return bad - 1


def _has_inner_null(array: pa.Array) -> bool:
    kind = array.type
    if not forbids_inner_nulls(kind):
        return False
    # What lies under a null does not count.
    there = array.filter(pc.is_valid(array)) if array.null_count else array
    if arrow.is_map(kind):
        start, end = (there.offsets[place].as_py() for place in (0, len(there)))
        inner = [(kind.item_field, there.items.slice(start, end - start))]
    elif arrow.is_struct(kind):
        inner = [(kind.field(place), there.field(place)) for place in range(kind.num_fields)]
    else:
        inner = [(kind.value_field, there.flatten())]
    return any((not field.nullable and values.null_count) or _has_inner_null(values) for field, values in inner)


def _children(kind: pa.DataType) -> list[pa.Field]:
    if arrow.is_map(kind):
        return [kind.item_field]
    if arrow.is_struct(kind):
        return list(kind)
    return [kind.value_field] if arrow.is_list(kind) or arrow.is_large_list(kind) else []
