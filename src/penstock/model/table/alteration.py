"""Alterations of a table: each from the table as it is to the table as it is then. Pure.

Columns are known by id, so a new name changes no row, and a name that is free again belongs to another column. What a
table is made of besides (key, buckets, partitions, version, a property that names a column) says names, and follows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as arrow

from penstock.errors import AlreadyExistsError, InvalidError, UnsupportedError
from penstock.model.schema.aggregate import CHOICES, AggFunction, check_takes
from penstock.model.schema.schema import Column, Schema, checked
from penstock.model.schema.type_words import format_type, parse_type
from penstock.model.table.properties import DELETE_AT_ZERO, change_properties
from penstock.model.table.spec import check_properties
from penstock.model.table.table import TableInfo
from penstock.model.words.names import check_column_name, fold

_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def with_column(
    info: TableInfo,
    name: str,
    type_: str | pa.DataType,
    agg: AggFunction | str | None = None,
    *,
    delimiter: str | None = None,
    default: pa.Scalar | None = None,
) -> TableInfo:
    """Return the table with one more column, which is nullable.

    Raises:
        AlreadyExistsError: there is a column of that name.
        InvalidError: the column is not allowed, or does not go with the merge engine.
    """
    if info.folds and agg is None:
        raise InvalidError(f"a column of an aggregate table has a function; choose one of {CHOICES}", column=name)
    if not info.folds and agg is not None:
        raise InvalidError("only columns of aggregate tables have a function", column=name)
    return _grown(info, info.schema.add_column(name, type_, agg=agg, delimiter=delimiter, default=default))


def with_renamed(info: TableInfo, old: str, new: str) -> TableInfo:
    """Return the table with another name for a column; with the same name it is the table as it was.

    Raises:
        AlreadyExistsError: there is a column of that name.
        InvalidError: there is no such column, or the name is not allowed.
    """
    column = info.schema.column(old)
    check_column_name(new)
    if new == old:
        return info
    twin = next((c for c in info.schema.columns if c.id != column.id and fold(c.name) == fold(new)), None)
    if twin is not None:
        raise AlreadyExistsError(
            "there is a column of that name (case does not tell them apart); choose another", column=twin.name
        )
    renamed = dataclasses.replace(column, name=new, first_name=column.label)
    columns = tuple(renamed if other.id == column.id else other for other in info.schema.columns)
    key = tuple(new if name == old else name for name in info.schema.primary_key)
    schema = checked(dataclasses.replace(info.schema, columns=columns, primary_key=key))
    return as_of(info, schema, info.schema_id + 1)


def without_column(info: TableInfo, name: str) -> TableInfo:
    """Return the table without a column; its id is never used again.

    Raises:
        InvalidError: there is no such column, or the table needs it.
    """
    column = info.schema.column(name)
    _refuse_needed(info, column, "dropped")
    kept = tuple(other for other in info.schema.columns if other.id != column.id)
    if not kept:
        raise InvalidError("a table has at least one column; drop the table", column=name, table=info.path)
    return _grown(info, checked(Schema(kept, info.schema.primary_key, info.schema.ids_end)))


def with_widened(info: TableInfo, name: str, type_: str | pa.DataType) -> TableInfo:
    """Return the table with a wider type for a column; with the same type it is the table as it was.

    Raises:
        InvalidError: there is no such column, the table needs its type, or the new one does not hold every old value.
    """
    column = info.schema.column(name)
    kind = parse_type(type_, name)
    _refuse_needed(info, column, "widened")
    if kind == column.type:
        return info
    if not is_wider(column.type, kind):
        raise InvalidError(
            "the column cannot take that type; it can be widened to " + _wider_words(column.type),
            column=name,
            type=format_type(column.type),
            asked=format_type(kind),
        )
    if column.agg is not None:
        check_takes(column.agg, name, kind)
    default = None if column.default is None else column.default.cast(kind)
    widened = dataclasses.replace(column, type=kind, default=default)
    columns = tuple(widened if other.id == column.id else other for other in info.schema.columns)
    return _grown(info, checked(dataclasses.replace(info.schema, columns=columns)))


def with_properties(info: TableInfo, properties: Mapping[str, Any]) -> TableInfo:
    """Return the table with some properties changed; None sets one back to its default.

    Raises:
        InvalidError: an unknown property, one that cannot change, or a value that does not go with the table.
    """
    changed = dataclasses.replace(info, properties=change_properties(info.properties, properties))
    check_properties(changed)
    return changed


def as_of(info: TableInfo, schema: Schema, schema_id: int) -> TableInfo:
    """Return the table under the names and types of one of its schemas."""

    def named(name: str) -> str:
        column = schema.column_by_id(info.schema.column(name).id)
        assert column is not None, "columns that make up a table are never dropped, and there from the beginning"
        return column.name

    properties = dict(info.properties)
    if DELETE_AT_ZERO in properties and properties[DELETE_AT_ZERO] in info.schema:
        properties[DELETE_AT_ZERO] = named(properties[DELETE_AT_ZERO])
    return dataclasses.replace(
        info,
        schema=schema,
        schema_id=schema_id,
        bucket_key=tuple(named(name) for name in info.bucket_key),
        partitioned_by=tuple(named(name) for name in info.partitioned_by),
        version_column=None if info.version_column is None else named(info.version_column),
        properties=properties,
    )


def is_wider(old: pa.DataType, new: pa.DataType) -> bool:
    """Tell whether every value of a type is one of another, wider one."""
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(new) > _INTEGERS.index(old)
    if arrow.is_decimal128(old) and arrow.is_decimal128(new):
        return bool(new.scale == old.scale and new.precision > old.precision)
    return (old, new) in (
        (pa.float32(), pa.float64()),
        (pa.string(), pa.large_string()),
        (pa.binary(), pa.large_binary()),
    )


def _wider_words(kind: pa.DataType) -> str:
    if arrow.is_decimal128(kind):
        return f"a decimal of more digits and the same scale, {kind.scale}"
    wider = [each for each in (*_INTEGERS, pa.float64(), pa.large_string(), pa.large_binary()) if is_wider(kind, each)]
    return ", ".join(format_type(each) for each in wider) or "none: there is no wider type"


def _grown(info: TableInfo, schema: Schema) -> TableInfo:
    return dataclasses.replace(info, schema=schema, schema_id=info.schema_id + 1)


def _refuse_needed(info: TableInfo, column: Column, what: str) -> None:
    uses: dict[str, Callable[[], bool]] = {
        "a column of the primary key": lambda: column.name in info.primary_key,
        "a partition column": lambda: column.name in info.partitioned_by,
        "the version column": lambda: column.name == info.version_column,
        "the count of aggregate.delete-at-zero": lambda: column.name == info.options.aggregate_delete_at_zero,
    }
    for use, is_so in uses.items():
        if is_so():
            raise UnsupportedError(f"{use} cannot be {what}; create another table", column=column.name, table=info.path)
