"""A filter over the rows of a table: built from text or from a `penstock.col` expression, run on batches."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidError, LimitError
from penstock.model.filter.binding import Arrays, Binding, Truth
from penstock.model.filter.expression import read_expression
from penstock.model.filter.grammar import FILTER_LENGTH_MAX, parse_filter
from penstock.model.filter.predicate import Predicate, comparisons, format_predicate
from penstock.model.schema.schema import Column, Schema
from penstock.model.schema.stored_field import absent_values

col: Final = pc.field
"""A column in a filter: `col("amount") > 10`. It is pyarrow's own."""

Mask = npt.NDArray[np.bool_]
_FORMAT: Final = b"\x01"
ROWS_AT_ONCE_MIN: Final = 1_024
PASSED_AT_ONCE: Final = 16_000_000
"""Rows times comparisons."""


class Filter:
    """A condition on the rows of a table with a given schema. A row for which it is unknown is out."""

    def __init__(self, source: str | pc.Expression | None, schema: Schema) -> None:
        """Read and check a filter; None lets every row in.

        Raises:
            InvalidError: no filter, an unknown column, or types that cannot be compared.
            LimitError: too long, or nested too deep.
        """
        self._schema = schema
        self._predicate = _read(source)
        binding = Binding(schema)
        self._truth: Truth | None = None if self._predicate is None else binding.bind(self._predicate)
        self._columns = tuple(binding.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that the filter needs."""
        return self._columns

    @property
    def bound_columns(self) -> tuple[Column, ...]:
        """Return the columns that the filter needs."""
        return tuple(self._schema.column(name) for name in self._columns)

    @property
    def column_ids(self) -> tuple[int, ...]:
        """Return the ids of the columns that the filter needs."""
        return tuple(column.id for column in self.bound_columns)

    @property
    def rows_at_once(self) -> int:
        """Return how many rows to run it on at a time, so that one run takes some ten milliseconds at most."""
        passes = 0 if self._predicate is None else comparisons(self._predicate)
        return max(ROWS_AT_ONCE_MIN, PASSED_AT_ONCE // max(1, passes))

    @property
    def is_all(self) -> bool:
        """Tell whether every row is in, whatever it holds."""
        return self._truth is None

    def mask(self, batch: pa.RecordBatch) -> Mask:
        """Return which rows of a batch, with columns under their users' names, are in."""
        return self._run({name: batch.column(name) for name in self._columns}, batch.num_rows)

    def mask_stored(self, batch: pa.RecordBatch) -> Mask:
        """Return which rows of a stored batch, with columns under their ids, are in.

        A column that the batch is too old to have is as its default.
        """
        arrays = {}
        for name in self._columns:
            column = self._schema.column(name)
            index = batch.schema.get_field_index(str(column.id))
            arrays[name] = absent_values(column.stored, batch.num_rows) if index < 0 else batch.column(index)
        return self._run(arrays, batch.num_rows)

    def also(self, other: Filter) -> Filter:
        """Return the filter that lets in what both do.

        Raises:
            LimitError: it would be too long, or nested too deep.
        """
        both = [format_predicate(each) for each in (self._predicate, other._predicate) if each is not None]
        return Filter(" AND ".join(f"({each})" for each in both) or None, self._schema)

    def to_bytes(self) -> bytes:
        """Return the filter as bytes, for tokens and the wire; empty where every row is in."""
        return b"" if self._predicate is None else _FORMAT + format_predicate(self._predicate).encode()

    @classmethod
    def from_bytes(cls, data: bytes, schema: Schema) -> Filter:
        """Return the filter that bytes stand for.

        Raises:
            InvalidError: the bytes are no filter on this schema.
            LimitError: too long, or nested too deep.
        """
        if not data:
            return cls(None, schema)
        if data[:1] != _FORMAT:
            raise InvalidError("the filter is of an unknown format; use the same version on both sides")
        try:
            return cls(data[1:].decode(), schema)
        except UnicodeDecodeError as cause:
            raise InvalidError("the filter is damaged") from cause

    def _run(self, arrays: Arrays, rows: int) -> Mask:
        truth: Any = True if self._truth is None else self._truth(arrays)
        if not isinstance(truth, pa.Array):
            known = truth if isinstance(truth, bool) else bool(truth.as_py())
            return np.full(rows, known)
        # Bits become bytes fastest through a cast.
        mask: npt.NDArray[np.uint8] = truth.fill_null(False).cast(pa.uint8()).to_numpy()
        return mask.view(np.bool_)

    def __repr__(self) -> str:
        return f"Filter({'' if self._predicate is None else format_predicate(self._predicate)})"


def _read(source: str | pc.Expression | None) -> Predicate | None:
    if source is None:
        return None
    if isinstance(source, str):
        return parse_filter(source)
    if not isinstance(source, pc.Expression):
        raise InvalidError("a filter is a string or a penstock.col expression", filter=type(source).__name__)
    predicate = read_expression(source)
    length = len(format_predicate(predicate))
    if length > FILTER_LENGTH_MAX:
        raise LimitError(f"a filter has at most {FILTER_LENGTH_MAX} characters", length=length)
    return predicate
