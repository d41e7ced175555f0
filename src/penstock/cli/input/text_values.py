"""Text as values of a column: what `arrow_text` writes, read back.

A timestamp without zone is taken as UTC where its column has one.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow

from penstock.errors import InvalidError, SchemaMismatchError

# What conversions raise for text that is no value of the type.
_ERRORS: Final = (pa.ArrowException, ValueError, TypeError, OverflowError)
_ZONE: Final = r"(Z|:.*[+-]\d\d(:?\d\d)?)$"
_DATE: Final = r"^\d{4}-\d\d-\d\d$"


def from_texts(texts: pa.Array, field: pa.Field) -> pa.Array:
    """Return strings as values of a column; a null stays null.

    Raises:
        SchemaMismatchError: a text is no such value; names column and row.
    """
    return _converted(texts, field, lambda part: _read(part, field.type))


def from_json(values: Sequence[Any], field: pa.Field) -> Any:
    """Return what JSON gave for a column: as it is where JSON has the type, else converted.

    Raises:
        SchemaMismatchError: a value is not of the column's type; names column and row.
    """
    kind = field.type
    if arrow.is_floating(kind):
        # Decimals are how numbers with a point are read where a table has such columns; words are NaN and infinities.
        return [float(v) if isinstance(v, Decimal) or v in ("NaN", "Infinity", "-Infinity") else v for v in values]
    if not _holds_text(kind):
        return list(values)
    return _converted(values, field, lambda part: _from_objects(part, kind))


def dates_as_timestamps(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows whose dates are midnights where their column is a timestamp."""
    for at, found in enumerate(batch.schema):
        index = schema.get_field_index(found.name)
        if index >= 0 and arrow.is_date(found.type) and arrow.is_timestamp(schema.field(index).type):
            wanted = schema.field(index).with_nullable(True)
            batch = batch.set_column(at, wanted, batch.column(at).cast(wanted.type))
    return batch


def from_word(text: str, field: pa.Field) -> Any:
    """Return one value from the command line.

    Raises:
        InvalidError: the text is no value of the column.
    """
    try:
        return _read(pa.array([text], pa.string()), field.type)[0].as_py()
    except _ERRORS as error:
        raise InvalidError("not a value of the column", column=field.name, value=text, type=str(field.type)) from error


def _converted(values: Any, field: pa.Field, convert: Callable[[Any], pa.Array]) -> pa.Array:
    try:
        return convert(values)
    except _ERRORS as error:
        row = _first_failing(values, convert)
        found = values[row].as_py() if isinstance(values, pa.Array) else values[row]
        raise SchemaMismatchError(
            "a value does not fit its column",
            column=field.name,
            row=row,
            value=repr(found)[:80],
            wanted=str(field.type),
        ) from error


def _first_failing(values: Any, convert: Callable[[Any], object]) -> int:
    start, end = 0, len(values)
    while end - start > 1:
        middle = (start + end) // 2
        try:
            convert(values[start:middle])
        except _ERRORS:
            end = middle
        else:
            start = middle
    return start


def _read(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if arrow.is_nested(kind):
        values = [None if text is None else json.loads(text, parse_float=Decimal) for text in texts.to_pylist()]
        return _from_objects(values, kind)
    return _decoded(texts, kind)


def _from_objects(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if arrow.is_decimal(kind):
        return pa.array([None if v is None else str(v) for v in values], pa.string()).cast(kind)
    return _decoded(pa.array(values, _text_type(kind)), kind)


def _decoded(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values whose binary is base64, and whose dates and decimals are text, in the type itself."""
    if arrow.is_binary(kind) or arrow.is_large_binary(kind):
        return pa.array([None if v is None else _unbase64(v) for v in values.to_pylist()], kind)
    if arrow.is_timestamp(kind) and kind.tz is not None and arrow.is_string(values.type):
        # A date is its midnight.
        whole = pc.if_else(pc.match_substring_regex(values, _DATE), _joined(values, "T00:00:00"), values)
        utc = _joined(whole, "Z")
        values = pc.if_else(pc.match_substring_regex(values, _ZONE), values, utc)
    return values.cast(kind)


def _joined(texts: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(texts, end, "")


def _text_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with strings in place of all that JSON writes as strings."""
    if arrow.is_list(kind) or arrow.is_large_list(kind):
        return pa.list_(_text_type(kind.value_type))
    if arrow.is_struct(kind):
        return pa.struct([(field.name, _text_type(field.type)) for field in kind])
    if arrow.is_map(kind):
        return pa.map_(_text_type(kind.key_type), _text_type(kind.item_type))
    return pa.string() if _is_written_as_text(kind) else kind


def _holds_text(kind: pa.DataType) -> bool:
    return not _text_type(kind).equals(kind) or arrow.is_map(kind) or arrow.is_decimal(kind)


def _is_written_as_text(kind: pa.DataType) -> bool:
    return bool(
        arrow.is_temporal(kind) or arrow.is_binary(kind) or arrow.is_large_binary(kind) or arrow.is_decimal(kind)
    )


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
