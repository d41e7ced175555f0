"""Types as DDL writes them: `DECIMAL(18, 2)`, `ARRAY<STRING>`, `STRUCT<a: INT NOT NULL>`.

The words are exact: a canonical type written and read again is the same type. So they are also how
types are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from pyarrow import types as arrow

from penstock.errors import InvalidError
from penstock.model.schema.types import COLUMN_TYPES, DECIMAL_PRECISION_MAX, DEPTH_MAX, canonical, find_type
from penstock.model.words.tokens import Cursor, Kind, is_plain, quote_identifier, quote_string

_NAMES: Final = {word: row.words[0] for row in COLUMN_TYPES for word in row.words}
_SIMPLE: Final = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "LARGE_STRING": pa.large_string(),
    "BINARY": pa.binary(),
    "LARGE_BINARY": pa.large_binary(),
    "DATE": pa.date32(),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}


def parse_type(words: str | pa.DataType, column: str = "") -> pa.DataType:
    """Return the canonical type that words name; an Arrow type is made canonical.

    Raises:
        InvalidError: no such type, or one that no column can have.
        LimitError: nested too deep.
    """
    if isinstance(words, pa.DataType):
        return canonical(words, column)
    if not isinstance(words, str):
        raise InvalidError("a type is an Arrow type or words such as BIGINT", column=column, type=repr(words))
    cursor = Cursor(words)
    type_ = read_type(cursor)
    if cursor.token.kind is not Kind.END:
        cursor.fail("expected the type to end")
    return canonical(type_, column)


def read_type(cursor: Cursor, depth: int = 0) -> pa.DataType:
    """Read a type at a cursor and step over it.

    Raises:
        InvalidError: no type stands there.
    """
    if cursor.token.kind is not Kind.WORD:
        cursor.fail("expected a type")
    if depth > DEPTH_MAX:
        cursor.fail(f"a type is nested at most {DEPTH_MAX} deep")
    name = _NAMES.get(cursor.token.text.upper())
    if name is None:
        cursor.fail(f"expected a type ({', '.join(row.words[0] for row in COLUMN_TYPES)})")
    word = cursor.take().text.upper()
    if name in _SIMPLE:
        if word == "DOUBLE":
            cursor.accept_word("PRECISION")
        return _SIMPLE[name]
    return _READERS[name](cursor, depth)


def format_type(type_: pa.DataType) -> str:
    """Return the words for a canonical type."""
    row = find_type(type_)
    assert row is not None, type_
    word = row.words[0]
    if arrow.is_decimal(type_):
        return f"{word}({type_.precision}, {type_.scale})"
    if word == "TIMESTAMP" and type_.tz != "UTC":
        return f"{word}({quote_string(type_.tz)})"
    if word in ("ARRAY", "LARGE_ARRAY"):
        return f"{word}<{_format_child(type_.value_field)}>"
    if word == "MAP":
        return f"MAP<{format_type(type_.key_type)}, {_format_child(type_.item_field)}>"
    if word == "STRUCT":
        fields = [type_.field(position) for position in range(type_.num_fields)]
        return f"STRUCT<{', '.join(f'{format_name(field.name)}: {_format_child(field)}' for field in fields)}>"
    return word


def format_name(name: str) -> str:
    """Return a name as it stands in DDL, quoted where it must be."""
    return name if is_plain(name) and name.upper() not in ("PRIMARY", "CONSTRAINT") else quote_identifier(name)


def read_not_null(cursor: Cursor) -> bool:
    """Read `NOT NULL` or `NULL` where it may stand; return whether null is allowed."""
    if cursor.accept_word("NOT", "NULL"):
        return False
    cursor.accept_word("NULL")
    return True


def _format_child(field: pa.Field) -> str:
    return format_type(field.type) + ("" if field.nullable else " NOT NULL")


def _read_decimal(cursor: Cursor, depth: int) -> pa.DataType:
    precision, scale = 10, 0
    if cursor.accept_symbol("("):
        precision = cursor.expect_integer("the number of digits")
        if cursor.accept_symbol(","):
            scale = cursor.expect_integer("the number of digits after the point")
        cursor.expect_symbol(")")
    if not (1 <= precision <= DECIMAL_PRECISION_MAX and scale <= precision):
        raise InvalidError(
            f"a decimal has 1 to {DECIMAL_PRECISION_MAX} digits, and no more of them after the point",
            type=f"decimal({precision}, {scale})",
        )
    return pa.decimal128(precision, scale)


def _read_string(cursor: Cursor, depth: int) -> pa.DataType:
    if cursor.accept_symbol("("):
        cursor.expect_integer("a length")
        cursor.expect_symbol(")")
    return pa.string()


def _read_timestamp(cursor: Cursor, depth: int) -> pa.DataType:
    zone = "UTC"
    if cursor.accept_symbol("("):
        zone = cursor.expect(Kind.STRING, "a time zone such as 'UTC'").text
        cursor.expect_symbol(")")
    return pa.timestamp("us", tz=zone)


def _read_array(cursor: Cursor, depth: int) -> pa.DataType:
    return pa.list_(_read_element(cursor, depth))


def _read_large_array(cursor: Cursor, depth: int) -> pa.DataType:
    return pa.large_list(_read_element(cursor, depth))


def _read_element(cursor: Cursor, depth: int) -> pa.Field:
    cursor.expect_symbol("<")
    element = _read_child(cursor, "item", depth)
    cursor.expect_symbol(">")
    return element


def _read_map(cursor: Cursor, depth: int) -> pa.DataType:
    cursor.expect_symbol("<")
    key = _read_child(cursor, "key", depth)
    cursor.expect_symbol(",")
    value = _read_child(cursor, "value", depth)
    cursor.expect_symbol(">")
    return pa.map_(key.with_nullable(False), value)


def _read_struct(cursor: Cursor, depth: int) -> pa.DataType:
    cursor.expect_symbol("<")
    fields = []
    while True:
        name = cursor.expect_identifier("a field name")
        cursor.accept_symbol(":")
        fields.append(_read_child(cursor, name, depth))
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(">")
    return pa.struct(fields)


def _read_child(cursor: Cursor, name: str, depth: int) -> pa.Field:
    type_ = read_type(cursor, depth + 1)
    return pa.field(name, type_, nullable=read_not_null(cursor))


_READERS: Final[dict[str, Callable[[Cursor, int], pa.DataType]]] = {
    "DECIMAL": _read_decimal,
    "STRING": _read_string,
    "TIMESTAMP": _read_timestamp,
    "ARRAY": _read_array,
    "LARGE_ARRAY": _read_large_array,
    "MAP": _read_map,
    "STRUCT": _read_struct,
}
