"""One key on its way to a lookup, without the work that many keys of any kind are worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as arrow

from penstock.model.schema.schema import Schema


class SingleKey:
    """Makes the batch of one key where each value is plainly of its column's type: whole numbers and texts."""

    def __init__(self, schema: Schema) -> None:
        self.names = schema.primary_key
        self._fields = [schema.arrow_schema.field(name) for name in schema.primary_key]
        self._schema = pa.schema(self._fields)
        kinds = [_python_type(field.type) for field in self._fields]
        self._kinds = None if None in kinds else kinds

    def batch(self, values: Sequence[Any]) -> pa.RecordBatch | None:
        """Return the key; None if it needs the code that knows every type, or that refuses it."""
        if self._kinds is None or [type(value) for value in values] != self._kinds:
            return None
        try:
            arrays = [pa.array([value], field.type) for value, field in zip(values, self._fields, strict=True)]
        except (pa.ArrowException, OverflowError, UnicodeError):
            return None
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _python_type(kind: pa.DataType) -> type | None:
    if arrow.is_integer(kind):
        return int
    return str if arrow.is_string(kind) or arrow.is_large_string(kind) else None
