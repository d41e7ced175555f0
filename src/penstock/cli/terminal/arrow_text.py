"""Arrow values as text, a column at a time: plain for tables and CSV, quoted for JSON.

Integers, decimals and booleans are written as they are; dates and times in ISO 8601; binary in base64;
lists, structs and maps as JSON. JSON has no NaN and no infinities: they are strings there.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow

_ESCAPES: Final = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_RARE_CONTROLS: Final = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
_WORDS: Final = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def plain_text(values: pa.Array) -> pa.Array:
    """Return values as strings; a null stays null."""
    kind = values.type
    if arrow.is_dictionary(kind):
        return plain_text(values.dictionary_decode())
    if _is_text(kind):
        return values.cast(pa.large_string())
    if arrow.is_timestamp(kind):
        return pc.replace_substring(values.cast(pa.large_string()), " ", "T", max_replacements=1)
    if arrow.is_boolean(kind) or arrow.is_date(kind) or arrow.is_time(kind) or _is_number(kind):
        return values.cast(pa.large_string())
    if _is_binary(kind):
        return pa.array([None if v is None else _base64(v) for v in values.to_pylist()], pa.large_string())
    if arrow.is_nested(kind):
        return pa.array([None if v is None else json.dumps(_plain(v)) for v in _listed(values)], pa.large_string())
    return pa.array([None if v is None else str(v) for v in values.to_pylist()], pa.large_string())


def json_text(values: pa.Array) -> pa.Array:
    """Return values as JSON; a null is the word `null`."""
    if arrow.is_dictionary(values.type):
        return json_text(values.dictionary_decode())
    text = plain_text(values)
    if arrow.is_floating(values.type):
        text = _with_words(text)
    elif not (arrow.is_boolean(values.type) or _is_number(values.type) or arrow.is_nested(values.type)):
        text = _quoted(text)
    return text.fill_null("null")


def json_rows(batch: pa.RecordBatch, end: str) -> pa.Array:
    """Return each row as a JSON object, followed by `end`."""
    pieces: list[Any] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        pieces += [f"{',' if pieces else '{'}{json.dumps(name, ensure_ascii=False)}:", json_text(column)]
    if not pieces:
        return pa.array(["{}" + end] * batch.num_rows, pa.large_string())
    scalars = [pa.scalar(p, pa.large_string()) if isinstance(p, str) else p for p in (*pieces, "}" + end, "")]
    return pc.binary_join_element_wise(*scalars)


def text_bytes(values: pa.Array) -> memoryview:
    """Return the bytes of all strings of an array, one after another, without a copy."""
    if len(values) == 0:
        return memoryview(b"")
    _, offsets, data = values.buffers()
    bounds = memoryview(offsets).cast("q")
    return memoryview(data)[bounds[values.offset] : bounds[values.offset + len(values)]]


def is_right_aligned(kind: pa.DataType) -> bool:
    """Tell whether people expect a column's values at its right edge."""
    return _is_number(kind)


def _quoted(text: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(text, _RARE_CONTROLS)).as_py():
        return pa.array([None if v is None else json.dumps(v, ensure_ascii=False) for v in text.to_pylist()], text.type)
    for character, escaped in _ESCAPES:
        if pc.any(pc.match_substring(text, character)).as_py():
            text = pc.replace_substring(text, character, escaped)
    quote = pa.scalar('"', text.type)
    return pc.binary_join_element_wise(quote, text, quote, pa.scalar("", text.type))


def _with_words(text: pa.Array) -> pa.Array:
    for word, shown in _WORDS.items():
        text = pc.if_else(pc.equal(text, word), pa.scalar(shown, text.type), text)
    return text


def _is_text(kind: pa.DataType) -> bool:
    return bool(arrow.is_string(kind) or arrow.is_large_string(kind) or arrow.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    variable = arrow.is_binary(kind) or arrow.is_large_binary(kind) or arrow.is_binary_view(kind)
    return bool(variable or arrow.is_fixed_size_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(arrow.is_integer(kind) or arrow.is_floating(kind) or arrow.is_decimal(kind))


def _listed(values: pa.Array) -> list[Any]:
    try:
        return values.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]
    except (KeyError, TypeError):
        # A map that has a key twice, or lists for keys: what an object cannot say, pairs can.
        return values.to_pylist()  # type: ignore[no-any-return]


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _plain(value: Any) -> Any:
    """Return a value inside a list, struct or map as JSON has it."""
    if isinstance(value, dict):
        return {str(_plain(name)): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return _base64(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return _WORDS[str(value)].strip('"')
    return value if isinstance(value, str | int | float | None) else str(value)
