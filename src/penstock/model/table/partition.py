"""Partitions by column values, and their names: `day=2024-01-01/city=Ulm`.

Values are percent-escaped, so that a name is one plain word and reads back as the same values. A column that was
renamed stands in names as it was called first, so no partition changes its name.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow

from penstock.errors import InvalidError, LimitError
from penstock.model.schema.schema import Column, Schema

PARTITION_NAME_LENGTH_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition that exists. Ids start at 1 and are never used again; 0 stands for the undivided table.

    The logs of its buckets begin at `first_offset`, the start of a life that no partition of that name had.
    """

    table_id: int
    partition_id: int
    name: str
    created_ms: int
    first_offset: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the partition as JSON values."""
        return {
            "table_id": self.table_id,
            "partition_id": self.partition_id,
            "name": self.name,
            "created_ms": self.created_ms,
            "first_offset": self.first_offset,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> PartitionInfo:
        """Return the partition that JSON values describe; older ones, without a first offset, began at 0."""
        return cls(**stored)


def partition_columns(schema: Schema, partitioned_by: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns that a table is partitioned by."""
    return tuple(schema.column(name) for name in partitioned_by)


def partition_name(columns: Sequence[Column], values: Mapping[str, object]) -> str:
    """Return the name of the partition with these values.

    Raises:
        InvalidError: a value is missing, too many, null or not of its column's type.
        LimitError: the name is too long.
    """
    names = [column.name for column in columns]
    if not isinstance(values, Mapping):
        raise InvalidError('a partition is named by its values: {"day": ...}', columns=names)
    if set(values) != set(names):
        raise InvalidError("a partition has one value for each partition column", columns=names, values=list(values))
    return partition_names(columns, [_array_of_one(column, values[column.name]) for column in columns])[0].as_py()  # type: ignore[no-any-return]


def parse_partition_name(columns: Sequence[Column], name: str) -> dict[str, Any]:
    """Return the values that a partition name stands for, as Python values of the columns' types.

    Raises:
        InvalidError: the name is not one of such a partition.
    """
    parts = name.split("/")
    if len(parts) != len(columns):
        raise InvalidError("the name does not fit the partition columns", partition=ascii(name))
    values = {}
    for column, part in zip(columns, parts, strict=True):
        prefix = f"{quote(column.label, safe='')}="
        if not part.startswith(prefix):
            raise InvalidError("the name does not fit the partition columns", partition=ascii(name), column=column.name)
        values[column.name] = _read_value(column, part[len(prefix) :])
    if partition_name(columns, values) != name:
        raise InvalidError("the partition name is not written the usual way", partition=ascii(name))
    return values


def partition_codes(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the names of the distinct partitions of some rows, and for each row the position of its name.

    Names come in the order of their values' first appearance, column by column.

    Raises:
        InvalidError: a value is null, or an array is not of its column's type.
        LimitError: a name is too long.
    """
    assert len(columns) == len(arrays) > 0
    combined: npt.NDArray[np.int64] | None = None
    parts: list[list[str]] = []
    for column, array in zip(columns, arrays, strict=True):
        codes, words = _encode(column, array)
        if combined is None:
            combined, parts = codes, [[word] for word in words]
            continue
        # Dense again after each column, so that the product of distinct values cannot overflow.
        pairs, combined = np.unique(combined * len(words) + codes, return_inverse=True)
        parts = [[*parts[pair // len(words)], words[pair % len(words)]] for pair in pairs.tolist()]
    assert combined is not None
    return [_checked_name("/".join(part)) for part in parts], combined


def partition_names(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> pa.StringArray:
    """Return for each row the name of its partition.

    Raises:
        InvalidError: a value is null, or an array is not of its column's type.
        LimitError: a name is too long.
    """
    names, codes = partition_codes(columns, arrays)
    return pa.array(names, pa.string()).take(pa.array(codes))


def _encode(column: Column, array: pa.Array) -> tuple[npt.NDArray[np.int64], list[str]]:
    if array.type != column.type:
        raise InvalidError("a partition value has another type", column=column.name, type=str(array.type))
    if array.null_count:
        raise InvalidError(
            "a partition column is null", column=column.name, row=pc.index(array.is_null(), True).as_py()
        )
    encoded = array.dictionary_encode()
    prefix = f"{quote(column.label, safe='')}="
    try:
        values = encoded.dictionary.to_pylist()
    except (ValueError, OverflowError) as cause:
        raise InvalidError("a partition's date is outside the years 1 to 9999", column=column.name) from cause
    words = [prefix + quote(_plain(value), safe="") for value in values]
    return encoded.indices.to_numpy().astype(np.int64), words


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _read_value(column: Column, word: str) -> Any:
    try:
        text = unquote_to_bytes(word).decode()
        if arrow.is_boolean(column.type):
            return {"true": True, "false": False}[text]
        if arrow.is_integer(column.type):
            return int(text)
        return datetime.date.fromisoformat(text) if arrow.is_date(column.type) else text
    except (ValueError, KeyError) as cause:
        raise InvalidError("the value does not fit its column", column=column.name, value=ascii(word)) from cause


def _array_of_one(column: Column, value: object) -> pa.Array:
    try:
        if isinstance(value, str) and arrow.is_date(column.type):
            value = datetime.date.fromisoformat(value)
        if value is not None and not _is_of(value, column.type):
            raise TypeError(type(value).__name__)
        return pa.array([value], column.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as cause:
        raise InvalidError(
            "a partition value does not fit its column", column=column.name, type=str(column.type), value=ascii(value)
        ) from cause


def _is_of(value: object, kind: pa.DataType) -> bool:
    # Arrow would take 1.5 for 1, and 5 for the sixth day of 1970.
    if arrow.is_boolean(kind):
        return isinstance(value, bool | np.bool_)
    if arrow.is_integer(kind):
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if arrow.is_date(kind):
        return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    return isinstance(value, str)


def _checked_name(name: str) -> str:
    if len(name) > PARTITION_NAME_LENGTH_MAX:
        raise LimitError(
            f"a partition name has at most {PARTITION_NAME_LENGTH_MAX} characters", partition=f"{name[:60]}..."
        )
    return name
