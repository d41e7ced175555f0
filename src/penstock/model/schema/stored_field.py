"""A column as files have it: a field named by the column's id, which says what older rows have in it.

A file holds the columns, of the types, that the table had when it was written. What reads it by another schema gets
each column in the type of its own field: a wider one as a rule, a narrower one where a reader began before the
column was widened. Rows that are older than the column have its default, which the field carries in its metadata.
"""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow

from penstock.errors import InvalidError, SchemaMismatchError

DEFAULT: Final = b"default"
DEFAULT_BYTES_MAX: Final = 64 << 10


def stored_field(column_id: int, kind: pa.DataType, default: pa.Scalar | None = None) -> pa.Field:
    """Return the field of a column: what a reader asks of files."""
    if default is None:
        return pa.field(str(column_id), kind)
    return pa.field(str(column_id), kind, metadata={DEFAULT: encode_default(default)})


def encode_default(default: pa.Scalar) -> bytes:
    """Return a default in the form in which it is stored: an Arrow stream of one value, in base64."""
    values = pa.array([default.as_py()], default.type) if arrow.is_nested(default.type) else pa.repeat(default, 1)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("value", default.type)])) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays([values], ["value"]))
    return base64.b64encode(sink.getvalue().to_pybytes())


@lru_cache(maxsize=1024)
def decode_default(encoded: bytes) -> pa.Scalar:
    """Return the default that was stored so.

    Raises:
        InvalidError: it is none.
    """
    if len(encoded) > 4 * DEFAULT_BYTES_MAX:
        raise InvalidError("a column's default is too large", bytes=len(encoded))
    try:
        batch = pa.ipc.open_stream(base64.b64decode(encoded, validate=True)).read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, binascii.Error, ValueError, OSError, StopIteration) as error:
        raise InvalidError("a column's default cannot be read") from error
    if batch.num_rows != 1 or batch.num_columns != 1:
        raise InvalidError("a column's default is one value", rows=batch.num_rows)
    return batch.column(0)[0]


def default_of(field: pa.Field) -> pa.Scalar | None:
    """Return what rows have that lack the column, None for null."""
    metadata = field.metadata
    return None if metadata is None or DEFAULT not in metadata else decode_default(metadata[DEFAULT])


_KNOWN_MAX: Final = 256
_KNOWN: Final[dict[tuple[int, int], tuple[pa.Schema, pa.Schema, list[str] | None]]] = {}
"""What was found out of pairs of schemas; they are kept with it, so that their ids stay theirs."""


def fitting_names(have: pa.Schema, wanted: pa.Schema) -> list[str] | None:
    """Return the names of the wanted fields if rows have them all, as they are wanted; None if they do not.

    Asked for every row that is looked up, so it is remembered for the same two schemas.
    """
    key = (id(have), id(wanted))
    known = _KNOWN.get(key)
    if known is None:
        types = dict(zip(have.names, have.types, strict=True))
        fits = len(wanted) > 0 and all(types.get(f.name) == f.type for f in wanted)
        if len(_KNOWN) >= _KNOWN_MAX:
            _KNOWN.clear()
        known = _KNOWN[key] = (have, wanted, wanted.names if fits else None)
    return known[2]


def absent_values(field: pa.Field, rows: int) -> pa.Array:
    """Return what so many rows have in a column that they lack."""
    default = default_of(field)
    if default is None:
        return pa.nulls(rows, field.type)
    if not arrow.is_nested(field.type):
        return pa.repeat(default, rows)
    return pa.array([default.as_py()], field.type).take(pa.array(np.zeros(rows, np.int64)))


def fitted_values(values: pa.Array, field: pa.Field) -> pa.Array:
    """Return stored values in the type that is asked for.

    Raises:
        SchemaMismatchError: the column was widened since, and one does not fit the narrower type that is asked for.
    """
    wanted = field.type
    if values.type == wanted:
        return values
    try:
        fitted = values.cast(wanted)
        if arrow.is_float32(wanted) and not _is_same(fitted.cast(values.type), values):
            raise pa.ArrowInvalid("digits would be lost")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatchError(
            "a column was widened since this reader began, and a value does not fit its type of then; begin again",
            column_id=int(field.name),
            type=str(wanted),
            stored=str(values.type),
        ) from error
    return fitted


def _is_same(these: pa.Array, those: pa.Array) -> bool:
    before, after = (each.fill_null(0).to_numpy(zero_copy_only=False) for each in (these, those))
    return bool(np.array_equal(before, after, equal_nan=True))
