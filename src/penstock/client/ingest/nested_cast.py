"""Nested values as another type of the same shape: level by level, so that what lies under a null counts for nothing.

Arrow's own cast looks at it: it refuses a null struct whose field is never null, for there that field is null.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow

Cast = Callable[[pa.Array, pa.DataType], pa.Array]


def cast_nested(values: pa.Array, target: pa.DataType, cast: Cast = pc.cast) -> pa.Array:
    """Return lists, maps and structs in the target's type; fields go by name, plain values through `cast`.

    Raises:
        pa.ArrowException: a value inside does not convert.
    """
    # A slice would be cast with the children of the rows outside it.
    return _cast(values.take(pa.array(np.arange(len(values)))), target, cast)


def _cast(values: pa.Array, target: pa.DataType, cast: Cast) -> pa.Array:
    source = values.type
    if source.equals(target):
        return values
    if arrow.is_struct(source) and arrow.is_struct(target):
        children = [_cast(values.field(field.name), field.type, cast) for field in target]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=values.is_null())
    if arrow.is_map(source) and arrow.is_map(target):
        keys, items = _cast(values.keys, target.key_type, cast), _cast(values.items, target.item_type, cast)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=target, mask=values.is_null())
    if arrow.is_fixed_size_list(source):
        return _cast(pc.cast(values, pa.list_(source.value_field)), target, cast)
    if _is_list(source) and _is_list(target):
        inner = _cast(values.values, target.value_type, cast)
        kind = pa.LargeListArray if arrow.is_large_list(target) else pa.ListArray
        width = pa.int64() if arrow.is_large_list(target) else pa.int32()
        return kind.from_arrays(values.offsets.cast(width), inner, type=target, mask=values.is_null())
    return cast(values, target)


def _is_list(kind: pa.DataType) -> bool:
    return bool(arrow.is_list(kind) or arrow.is_large_list(kind))
