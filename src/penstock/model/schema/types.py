"""The one type table: what a column may be, what Spark calls it, whether it can be a key.

Types are kept *canonical*: children of lists and maps have Arrow's usual names, metadata is dropped,
so that two spellings of a type are one type. What has no place is refused with the nearest choice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
from pyarrow import types as arrow

from penstock.errors import InvalidError, LimitError
from penstock.model.words.names import check_field_name, fold

DEPTH_MAX: Final = 32
"""How deep lists, structs and maps may be nested."""

DECIMAL_PRECISION_MAX: Final = 38
_OFFSET_ZONE: Final = re.compile(r"[+-]\d\d:\d\d", re.ASCII)
_Is = Callable[[pa.DataType], bool]


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A row of the type table. `words` are what DDL calls the type, the preferred one first."""

    arrow: str
    words: tuple[str, ...]
    spark: str
    key: bool
    matches: _Is
    partition: bool = False


@dataclass(frozen=True, slots=True)
class RefusedType:
    """A type without a place, and what to take instead."""

    arrow: str
    nearest: str
    matches: _Is


def _is_timestamp_us(type_: pa.DataType) -> bool:
    return bool(arrow.is_timestamp(type_)) and type_.unit == "us"


COLUMN_TYPES: Final = (
    ColumnType("bool", ("BOOLEAN", "BOOL"), "BooleanType", True, arrow.is_boolean, partition=True),
    ColumnType("int8", ("TINYINT", "BYTE"), "ByteType", True, arrow.is_int8, partition=True),
    ColumnType("int16", ("SMALLINT", "SHORT"), "ShortType", True, arrow.is_int16, partition=True),
    ColumnType("int32", ("INT", "INTEGER"), "IntegerType", True, arrow.is_int32, partition=True),
    ColumnType("int64", ("BIGINT", "LONG"), "LongType", True, arrow.is_int64, partition=True),
    ColumnType("float", ("FLOAT", "REAL"), "FloatType", False, arrow.is_float32),
    ColumnType("double", ("DOUBLE",), "DoubleType", False, arrow.is_float64),
    ColumnType("decimal128(p, s)", ("DECIMAL", "DEC", "NUMERIC"), "DecimalType", True, arrow.is_decimal128),
    ColumnType("string", ("STRING", "TEXT", "VARCHAR", "CHAR"), "StringType", True, arrow.is_string, partition=True),
    ColumnType("large_string", ("LARGE_STRING",), "StringType", True, arrow.is_large_string, partition=True),
    ColumnType("binary", ("BINARY", "BYTES", "VARBINARY"), "BinaryType", True, arrow.is_binary),
    ColumnType("large_binary", ("LARGE_BINARY",), "BinaryType", True, arrow.is_large_binary),
    ColumnType("date32", ("DATE",), "DateType", True, arrow.is_date32, partition=True),
    ColumnType(
        "timestamp[us, tz]",
        ("TIMESTAMP", "TIMESTAMP_LTZ"),
        "TimestampType",
        True,
        lambda type_: _is_timestamp_us(type_) and type_.tz is not None,
    ),
    ColumnType(
        "timestamp[us]",
        ("TIMESTAMP_NTZ",),
        "TimestampNTZType",
        True,
        lambda type_: _is_timestamp_us(type_) and type_.tz is None,
    ),
    ColumnType("list<T>", ("ARRAY",), "ArrayType", False, arrow.is_list),
    ColumnType("large_list<T>", ("LARGE_ARRAY",), "ArrayType", False, arrow.is_large_list),
    ColumnType("struct<...>", ("STRUCT",), "StructType", False, arrow.is_struct),
    ColumnType("map<K, V>", ("MAP",), "MapType", False, arrow.is_map),
)

REFUSED_TYPES: Final = (
    RefusedType("uint8", "smallint (int16)", arrow.is_uint8),
    RefusedType("uint16", "int (int32)", arrow.is_uint16),
    RefusedType("uint32", "bigint (int64)", arrow.is_uint32),
    RefusedType("uint64", "decimal(20, 0)", arrow.is_uint64),
    RefusedType("halffloat", "float (float32)", arrow.is_float16),
    RefusedType("decimal32, decimal64", "decimal128", lambda t: arrow.is_decimal32(t) or arrow.is_decimal64(t)),
    RefusedType("decimal256", "decimal128, at most 38 digits", arrow.is_decimal256),
    RefusedType("string_view", "string", arrow.is_string_view),
    RefusedType("binary_view", "binary", arrow.is_binary_view),
    RefusedType("fixed_size_binary", "binary", arrow.is_fixed_size_binary),
    RefusedType("date64", "date (date32)", arrow.is_date64),
    RefusedType("timestamp[s], [ms], [ns]", "timestamp[us]", arrow.is_timestamp),
    RefusedType("time32, time64", "bigint, of microseconds since midnight", arrow.is_time),
    RefusedType("duration", "bigint, of microseconds", arrow.is_duration),
    RefusedType("interval", "bigint, of microseconds", arrow.is_interval),
    RefusedType("fixed_size_list", "array (list)", arrow.is_fixed_size_list),
    RefusedType("list_view", "array (list)", lambda t: arrow.is_list_view(t) or arrow.is_large_list_view(t)),
    RefusedType("dictionary", "the type of its values", arrow.is_dictionary),
    RefusedType("run_end_encoded", "the type of its values", arrow.is_run_end_encoded),
    RefusedType("union", "struct, with a field for each choice", arrow.is_union),
    RefusedType("null", "the type that the column will have, such as string", arrow.is_null),
)


def find_type(type_: pa.DataType) -> ColumnType | None:
    """Return the table's row for a type, None if a column cannot have it."""
    return next((row for row in COLUMN_TYPES if row.matches(type_)), None)


def canonical(type_: pa.DataType, column: str, depth: int = 0) -> pa.DataType:
    """Return the type as it is kept.

    Raises:
        InvalidError: a column cannot have the type; the message names the nearest choice.
        LimitError: nested too deep.
    """
    if depth > DEPTH_MAX:
        raise LimitError(f"a type is nested at most {DEPTH_MAX} deep", column=column)
    if find_type(type_) is None:
        raise InvalidError(f"no column can have this type; use {_nearest(type_)}", column=column, type=str(type_))
    if arrow.is_decimal128(type_) and not 0 <= type_.scale <= type_.precision:
        raise InvalidError("a decimal's scale is between 0 and its precision", column=column, type=str(type_))
    if arrow.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp("us", tz=_canonical_zone(type_.tz, column))
    if arrow.is_list(type_):
        return pa.list_(_child(type_.value_field, "item", column, depth))
    if arrow.is_large_list(type_):
        return pa.large_list(_child(type_.value_field, "item", column, depth))
    if arrow.is_map(type_):
        key, item = type_.key_field, type_.item_field
        return pa.map_(
            _child(key, "key", column, depth).with_nullable(False),
            _child(item, "value", column, depth),
        )
    if arrow.is_struct(type_):
        return _canonical_struct(type_, column, depth)
    return type_


def check_key_type(type_: pa.DataType, column: str) -> None:
    """Refuse a type that a primary key column cannot have.

    Raises:
        InvalidError: the message names the nearest choice.
    """
    row = find_type(type_)
    if row is None or not row.key:
        instead = "decimal or bigint" if arrow.is_floating(type_) else "string or binary"
        raise InvalidError(f"a key column cannot have this type; use {instead}", column=column, type=str(type_))


def check_partition_type(type_: pa.DataType, column: str) -> None:
    """Refuse a type that a partition column cannot have.

    Raises:
        InvalidError: the message lists the choices.
    """
    row = find_type(type_)
    if row is None or not row.partition:
        raise InvalidError("a partition column is a string, integer, date or boolean", column=column, type=str(type_))


def _child(field: pa.Field, name: str, column: str, depth: int) -> pa.Field:
    return pa.field(name, canonical(field.type, column, depth + 1), nullable=field.nullable)


def _canonical_struct(type_: pa.DataType, column: str, depth: int) -> pa.DataType:
    fields = [type_.field(position) for position in range(type_.num_fields)]
    if not fields:
        raise InvalidError("a struct has at least one field", column=column)
    if len({fold(check_field_name(field.name)) for field in fields}) < len(fields):
        raise InvalidError("two fields of a struct have the same name", column=column, type=str(type_))
    return pa.struct([_child(field, field.name, column, depth) for field in fields])


def _canonical_zone(zone: str, column: str) -> str:
    if _OFFSET_ZONE.fullmatch(zone):
        return zone
    try:
        return ZoneInfo(zone).key
    except (ZoneInfoNotFoundError, ValueError, OSError) as cause:
        raise InvalidError("unknown time zone; use UTC", column=column, zone=ascii(zone)) from cause


def _nearest(type_: pa.DataType) -> str:
    if arrow.is_dictionary(type_):
        return f"the type of its values ({type_.value_type})"
    if isinstance(type_, pa.BaseExtensionType):
        return f"its storage type ({type_.storage_type})"
    refused = next((row for row in REFUSED_TYPES if row.matches(type_)), None)
    return "string or binary" if refused is None else refused.nearest
