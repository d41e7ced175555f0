"""Any data that a user may hand over, as named columns of one length; types are looked at later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.client.ingest.cast import cast_array, cast_objects
from penstock.errors import InvalidError, LimitError, SchemaMismatchError

# What a column's values may come as; a list of Python objects is converted towards the column's type.
Values = Any


class ArrowSource:
    """Named columns, not yet of the table's types."""

    def __init__(self, columns: Mapping[str, Values], rows: int) -> None:
        self._columns = columns
        self.rows = rows

    @property
    def names(self) -> Sequence[str]:
        """Return the column names, in the data's order."""
        return list(self._columns)

    def column(self, field: pa.Field) -> pa.Array:
        """Return one column in the type of `field`.

        Raises:
            SchemaMismatchError: a value does not fit; names column and row.
        """
        values = self._columns[field.name]
        if isinstance(values, pa.ChunkedArray):
            values = _combined(values, field.name)
        if isinstance(values, pa.Array):
            return cast_array(values, field)
        if isinstance(values, np.ndarray) or _is_from(values, "pandas"):
            if values.dtype != np.dtype(object):
                array = _converted(values, field.name)
                check_arrow([array])  # pandas hands out arrays of Arrow's that it was given, as they are
                # pandas keeps a column without values as double, whatever it is meant to hold.
                bare = array.null_count == len(array)
                return pa.nulls(len(array), field.type) if bare else cast_array(array, field)
            values = _combined(_converted(values, field.name, field.type), field.name) if _is_nested(field) else values
        return values if isinstance(values, pa.Array) else cast_objects(_objects(values), field)

    @classmethod
    def of(cls, data: object, *, key: Sequence[str] = ()) -> ArrowSource:
        """Return the columns of `data`; `key` helps to tell one row from a dict of columns.

        Raises:
            InvalidError: the data is of no kind that is understood, or is no valid Arrow.
            SchemaMismatchError: its rows or columns do not fit each other.
        """
        if isinstance(data, Mapping):
            return cls.of([data]) if is_row(data, key) else _from_columns(data)
        if isinstance(data, list | tuple):
            return _from_rows(data)
        if _is_from(data, "pandas") and hasattr(data, "columns"):
            return _from_pandas(data)
        if isinstance(data, Iterator) and not hasattr(data, "__arrow_c_stream__"):
            return _from_rows(list(data))
        return _from_arrow(data)


def kept(data: Any) -> Any:
    """Return data that may be read more than once: what a generator yields is taken into a list."""
    return list(data) if isinstance(data, Iterator) and not hasattr(data, "__arrow_c_stream__") else data


def is_row(data: Mapping[str, Any], key: Sequence[str]) -> bool:
    """Tell whether a dict is one row: a key column, or without key any column, holds a single value."""
    named = [name for name in key if name in data]
    return bool(data) and any(not _is_sequence(data[name]) for name in (named or data))


def _is_sequence(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping)


def _is_from(value: object, library: str) -> bool:
    # By name, for asking the library itself would import it.
    return type(value).__module__.partition(".")[0] == library


def _is_nested(field: pa.Field) -> bool:
    return bool(pa.types.is_nested(field.type))


def _objects(values: Any) -> list[Any]:
    if _is_from(values, "pandas"):
        # pandas writes a missing value in an object column as NaN, NaT or NA.
        return list(values.astype(object).where(values.notna(), None))
    return list(values)


def _converted(values: Any, name: str, type_: pa.DataType | None = None) -> Any:
    try:
        return pa.array(values, type=type_, from_pandas=_is_from(values, "pandas"))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaMismatchError("the column does not convert to arrow", column=name, reason=str(error)) from error


def _combined(values: Any, name: str) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    try:
        combined = values.combine_chunks()
    except pa.ArrowException as error:
        raise LimitError("the column is too large for one call; write it in parts", column=name) from error
    if isinstance(combined, pa.ChunkedArray):
        raise LimitError("the column is too large for one call; write it in parts", column=name)
    return combined


def _from_columns(data: Mapping[str, Values]) -> ArrowSource:
    _check_names(list(data))
    lengths = {name: len(values) for name, values in data.items()}
    if len(set(lengths.values())) > 1:
        raise SchemaMismatchError("the columns differ in length", rows=lengths)
    check_arrow(values for values in data.values() if isinstance(values, pa.Array | pa.ChunkedArray))
    return ArrowSource(data, next(iter(lengths.values()), 0))


def _from_rows(rows: Sequence[Any]) -> ArrowSource:
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidError("a list of rows holds dicts", row=position, type=type(row).__name__)
    columns = _RowColumns(rows)
    _check_names(list(columns))
    return ArrowSource(columns, len(rows))


class _RowColumns(Mapping[str, list[Any]]):
    """The columns of a list of dicts, made when asked for, so that unknown names are refused first."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows
        names: dict[str, None] = dict.fromkeys(rows[0]) if rows else {}
        names.update(dict.fromkeys(set().union(*rows) - names.keys()))
        self._names = names

    def __getitem__(self, name: str) -> list[Any]:
        try:
            return list(map(itemgetter(name), self._rows))
        except KeyError:
            row = next(position for position, row in enumerate(self._rows) if name not in row)
            raise SchemaMismatchError(
                "a row lacks a column that other rows have; write None where null is meant", column=name, row=row
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _from_pandas(data: Any) -> ArrowSource:
    if any(name is not None for name in data.index.names):
        data = data.reset_index()
    if not data.columns.is_unique:
        raise SchemaMismatchError("a column is named twice", columns=list(data.columns))
    _check_names(list(data.columns))
    return ArrowSource({name: data[name] for name in data.columns}, len(data))


def _from_arrow(data: Any) -> ArrowSource:
    try:
        table = _arrow_table(data)
        table.validate(full=True)
    except pa.ArrowException as error:
        raise InvalidError("the data is not valid arrow", reason=str(error).splitlines()[0]) from error
    _check_names(table.column_names)
    return ArrowSource(dict(zip(table.column_names, table.columns, strict=True)), table.num_rows)


def _arrow_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data).read_all()
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)])
    raise InvalidError(
        "data of this kind is not understood; pass a RecordBatch, Table, RecordBatchReader, pandas or polars "
        "DataFrame, anything with __arrow_c_stream__, a list or generator of dicts, a dict of columns, or a dict "
        "for one row",
        type=type(data).__name__,
    )


def _check_names(names: Sequence[object]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise SchemaMismatchError("a column's name is a string", column=repr(name))
    if len(set(names)) != len(names):
        twice = next(name for position, name in enumerate(names) if name in names[:position])
        raise SchemaMismatchError("a column is named twice", column=twice)


def check_arrow(arrays: Iterable[Any]) -> None:
    """Validate arrays, or whole batches, in full.

    Raises:
        InvalidError: one is no valid Arrow.
    """
    for array in arrays:
        try:
            array.validate(full=True)
        except pa.ArrowException as error:
            raise InvalidError("the data is not valid arrow", reason=str(error).splitlines()[0]) from error
