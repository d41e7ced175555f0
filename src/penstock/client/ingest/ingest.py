"""A user's data as one record batch in the table's types, or a clear refusal before anything is sent.

Columns come in any order; names are exact. Every batch that leaves here has been validated in full,
holds no null where the table allows none, and has its columns in the table's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.ingest.arrow_source import ArrowSource, check_arrow
from penstock.client.ingest.bare_keys import key_columns
from penstock.errors import InvalidError, SchemaMismatchError
from penstock.model.place.change import ChangeType
from penstock.model.place.system_columns import RESERVED_NAMES, SYSTEM_COLUMNS
from penstock.model.schema.inner_nulls import first_inner_null
from penstock.model.schema.schema import Schema
from penstock.model.words.names import name_list
from penstock.model.words.near_name import did_you_mean

CHANGE_TYPE: Final = SYSTEM_COLUMNS[0]


def ingest_rows(data: object, schema: Schema, optional: frozenset[str] = frozenset()) -> pa.RecordBatch:
    """Return rows that have every column of the schema; an optional one that the data lacks is left out.

    Raises:
        InvalidError: the data is of no kind that is understood.
        SchemaMismatchError: a column is unknown or missing, a value does not fit, a null is not allowed.
    """
    if isinstance(data, pa.RecordBatch) and (fitting := _fitting(data, schema)) is not None:
        return fitting
    source = ArrowSource.of(data, key=schema.primary_key)
    hint = "; or pass columns=[...] to write only some" if schema.keyed else ""
    absent = optional.difference(source.names)
    return _batch(source, schema, [name for name in schema.names if name not in absent], hint=hint)


def ingest_present(data: object, schema: Schema) -> tuple[pa.RecordBatch, tuple[str, ...] | None]:
    """Return rows with the columns that the data has, and the names of those outside the key.

    The names are None if no column is absent.

    Raises:
        InvalidError: the data is of no kind that is understood.
        SchemaMismatchError: as for `ingest_rows`; only key columns can be missing.
    """
    if isinstance(data, pa.RecordBatch) and (fitting := _fitting(data, schema)) is not None:
        return fitting, None
    source = ArrowSource.of(data, key=schema.primary_key)
    present = set(source.names).union(schema.primary_key)
    names = [name for name in schema.names if name in present] if source.rows else schema.names
    batch = _batch(source, schema, names)
    return batch, None if len(names) == len(schema.names) else _outside_key(names, schema)


def ingest_partial(data: object, schema: Schema, columns: Iterable[str]) -> tuple[pa.RecordBatch, tuple[str, ...]]:
    """Return rows with the key and the columns named, and the names of those outside the key.

    Raises:
        InvalidError: the data is of no kind that is understood, or `columns` is no list of names.
        SchemaMismatchError: as for `ingest_rows`, or `columns` names a column that the table lacks.
    """
    named = check_columns(columns, schema)
    wanted = named.union(schema.primary_key)
    names = [name for name in schema.names if name in wanted]
    source = ArrowSource.of(data, key=schema.primary_key)
    return _batch(source, schema, names), _outside_key(names, schema)


def ingest_keys(data: object, schema: Schema) -> pa.RecordBatch:
    """Return the key columns of the data: as rows, or bare values if the key is one column, else tuples.

    Raises:
        InvalidError: the data is of no kind that is understood.
        SchemaMismatchError: a key column is missing, null or of another type, or a column is unknown.
    """
    key = schema.primary_key
    return _batch(ArrowSource.of(key_columns(data, key), key=key), schema, key)


def ingest_changes(
    data: object,
    schema: Schema,
    columns: Iterable[str] | None = None,
    *,
    some_absent: bool = False,
    optional: frozenset[str] = frozenset(),
) -> tuple[pa.RecordBatch, tuple[str, ...] | None]:
    """Return rows with `_change_type`, last, and the names of their columns outside the key; None: all there are.

    Without `columns` every column is wanted, but for optional ones that the data lacks; with `some_absent`
    those that are there. What else a changelog adds is dropped.

    Raises:
        InvalidError: the data is of no kind that is understood, or a change type is unknown.
        SchemaMismatchError: as for `ingest_rows`, or `_change_type` is missing.
    """
    source = ArrowSource.of(data, key=schema.primary_key)
    if source.rows == 0 and not source.names:
        return pa.RecordBatch.from_pylist([], schema=schema.arrow_schema.append(CHANGE_TYPE)), None
    if CHANGE_TYPE.name not in source.names:
        raise _missing(CHANGE_TYPE.name, "; it says +I, -U, +U or -D", source)
    wanted = set(schema.names) - optional.difference(source.names)
    if columns is not None:
        wanted = check_columns(columns, schema).union(schema.primary_key)
    elif some_absent:
        wanted = set(source.names).union(schema.primary_key)
    names = [name for name in schema.names if name in wanted]
    hint = "" if columns is not None else "; or pass columns=[...] to apply only some"
    batch = _batch(source, schema, names, hint=hint, ignored=RESERVED_NAMES, nulls_in_values=True)
    kinds = source.column(CHANGE_TYPE)
    known = pa.array([kind.value for kind in ChangeType])
    unknown = pc.index(pc.is_in(kinds, value_set=known), False).as_py()
    if unknown >= 0:
        raise InvalidError(
            "no such change type; there are +I, -U, +U, -D and +A", row=unknown, change_type=kinds[unknown].as_py()
        )
    partial = columns is not None or some_absent
    targets = _outside_key(names, schema) if partial and len(names) < len(schema.names) else None
    return batch.append_column(CHANGE_TYPE, kinds), targets


def check_columns(columns: Iterable[str], schema: Schema) -> set[str]:
    """Return the names given as `columns=`.

    Raises:
        InvalidError: not a list of names.
        SchemaMismatchError: a name is no column.
    """
    named = name_list(columns)
    for name in named:
        if name not in schema:
            raise _unknown(name, schema)
    return set(named)


def _fitting(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch | None:
    """Return a batch that has the table's columns and types already, None if it has not: the way of small writes."""
    wanted = schema.arrow_schema
    exact = batch.schema.equals(wanted)
    if not exact and not batch.schema.equals(schema.nullable_arrow_schema):
        return None
    check_arrow([batch])
    for position, column in enumerate(schema.columns):
        if not column.nullable and batch.column(position).null_count:
            raise _null(column.name, batch.column(position), schema)
    for column in schema.inner_required:
        _check_inside(column.name, batch.column(column.name))
    return batch if exact else pa.RecordBatch.from_arrays(batch.columns, schema=wanted)


def _outside_key(names: Sequence[str], schema: Schema) -> tuple[str, ...]:
    return tuple(name for name in names if name not in schema.primary_key)


def _batch(
    source: ArrowSource,
    schema: Schema,
    names: Sequence[str],
    *,
    hint: str = "",
    ignored: frozenset[str] = frozenset(),
    nulls_in_values: bool = False,
) -> pa.RecordBatch:
    for name in source.names:
        if name not in schema and name not in ignored:
            raise _unknown(name, schema)
    fields = [schema.arrow_schema.field(name) for name in names]
    if source.rows == 0 and not source.names:
        return pa.RecordBatch.from_pylist([], schema=pa.schema(fields))
    for name in names:
        if name not in source.names:
            raise _missing(name, hint, source, key=name in schema.primary_key)
    arrays = [source.column(field) for field in fields]
    required = schema.primary_key if nulls_in_values else [field.name for field in fields if not field.nullable]
    for field, array in zip(fields, arrays, strict=True):
        if array.null_count and field.name in required:
            raise _null(field.name, array, schema)
    for column in schema.inner_required:
        if column.name in names:
            _check_inside(column.name, arrays[names.index(column.name)])
    # A before-image may hold nulls that the column has since been declared not to take.
    kept = [field.with_nullable(field.name not in required) for field in fields] if nulls_in_values else fields
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(kept))


def _check_inside(name: str, array: pa.Array) -> None:
    row = first_inner_null(array)
    if row is not None:
        raise SchemaMismatchError(
            "the column's type allows no null there; fill it or leave the row out",
            column=name,
            row=row,
            type=array.type,
        )


def _unknown(name: Any, schema: Schema) -> SchemaMismatchError:
    shown = ", ".join(schema.names[:20]) + (", ..." if len(schema.names) > 20 else "")
    meant = did_you_mean(name, schema.names)
    return SchemaMismatchError(
        f"the table has no such column; {meant}it has {shown}; leave it out, "
        "or add it with add_column and open the table again",
        column=name,
    )


def _missing(name: str, hint: str, source: ArrowSource, *, key: bool = False) -> SchemaMismatchError:
    what = (
        "a key column is missing from the data; add it" if key else f"a column is missing from the data; add it{hint}"
    )
    return SchemaMismatchError(what, column=name, found=", ".join(source.names[:20]))


def _null(name: str, array: pa.Array, schema: Schema) -> SchemaMismatchError:
    row = pc.index(array.is_null(), True).as_py()
    what = "a key column is never null" if name in schema.primary_key else "the column is declared not null"
    return SchemaMismatchError(f"{what}; fill it or leave the row out", column=name, row=row)
