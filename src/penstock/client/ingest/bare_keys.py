"""Keys as a user has them at hand: one value, a tuple, or many of either."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from penstock.client.ingest.arrow_source import kept
from penstock.errors import InvalidError

_VALUES: Final = (str, bytes, bytearray, bool, int, float, date, time, timedelta, Decimal, UUID, np.generic, pa.Scalar)


def key_columns(data: Any, key: Sequence[str]) -> Any:
    """Return keys that come bare as a dict of columns; what has columns, or names, stays as it is.

    Raises:
        InvalidError: there are not as many values as the key has columns.
    """
    data = _one(kept(data), key)
    if len(key) == 1 and _is_column(data):
        return {key[0]: data}
    if isinstance(data, Collection) and not isinstance(data, list | tuple | Mapping) and type(data) in _COLLECTIONS:
        data = list(data)
    if not isinstance(data, list | tuple) or not data or isinstance(data[0], Mapping):
        return data
    if len(key) == 1:
        return {key[0]: [value[0] if _is_tuple_of_one(value) else value for value in data]}
    for row, values in enumerate(data):
        if not isinstance(values, tuple | list) or len(values) != len(key):
            raise _refused(key, row=row, found=repr(values)[:100])
    return {name: [values[place] for values in data] for place, name in enumerate(key)}


_COLLECTIONS: Final = frozenset((range, set, frozenset, type({}.keys()), type({}.values())))


def _one(data: Any, key: Sequence[str]) -> Any:
    """Return a list of one key where one key is given."""
    if isinstance(data, _VALUES):
        if len(key) > 1:
            raise _refused(key, found=repr(data)[:100])
        return [data]
    bare = isinstance(data, tuple) and len(key) > 1 and bool(data)
    return [data] if bare and not isinstance(data[0], tuple | list | Mapping) else data


def _is_column(data: Any) -> bool:
    if isinstance(data, pa.Array | pa.ChunkedArray | np.ndarray):
        return True
    library = type(data).__module__.partition(".")[0]
    return library in {"pandas", "polars"} and not hasattr(data, "columns") and not isinstance(data, Iterator)


def _is_tuple_of_one(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 1


def _refused(key: Sequence[str], **facts: Any) -> InvalidError:
    return InvalidError(
        f"a key has {len(key)} columns here; pass a tuple of them, in this order, for each key, or dicts",
        primary_key=list(key),
        **facts,
    )
