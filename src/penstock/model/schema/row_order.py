"""An order of rows by some of their columns, as `ORDER BY` has it in Spark: nulls are below every value, NaN above.

So nulls come first where values ascend, and last where they descend. Rows that are equal keep the order they had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow

from penstock.errors import InvalidError, UnsupportedError
from penstock.model.schema.schema import Schema
from penstock.model.words.tokens import Cursor, Kind

Rows = npt.NDArray[np.int64]
_LOW, _VALUE, _HIGH = 0, 1, 2


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Names of columns, and whether each descends."""

    names: tuple[str, ...]
    descending: tuple[bool, ...]

    @classmethod
    def parse(cls, order_by: str, schema: Schema) -> RowOrder:
        """Return the order that a text says: `amount desc, city`.

        Raises:
            InvalidError: it is not understood, or names a column that is unknown or was named before.
            UnsupportedError: values of a column have no order.
        """
        if not isinstance(order_by, str):
            raise InvalidError('order_by is a text such as "amount desc, city"', found=type(order_by).__name__)
        cursor = Cursor(order_by)
        found: dict[str, bool] = {}
        while True:
            name = cursor.expect_identifier("the name of a column")
            if name in found:
                raise InvalidError("order_by names a column twice", column=name)
            found[name] = cursor.accept_word("DESC")
            if not found[name]:
                cursor.accept_word("ASC")
            if not cursor.accept_symbol(","):
                break
        if cursor.token.kind is not Kind.END:
            cursor.fail("order_by has columns, each with asc or desc; expected a comma")
        return cls.of(tuple(found), tuple(found.values()), schema)

    @classmethod
    def of(cls, names: Sequence[str], descending: Sequence[bool], schema: Schema) -> RowOrder:
        """Return an order, checked against a schema.

        Raises:
            InvalidError: a column is unknown, or there is none.
            UnsupportedError: values of a column have no order.
        """
        if not 0 < len(names) == len(descending) == len(set(names)):
            raise InvalidError("an order has columns, each once", names=list(names)[:20])
        for name in names:
            kind = schema.column(name).type
            if arrow.is_nested(kind) or arrow.is_dictionary(kind) or arrow.is_interval(kind):
                raise UnsupportedError("rows cannot be ordered by a column of this type", column=name, type=str(kind))
        return cls(tuple(names), tuple(descending))

    def first(self, columns: Sequence[pa.Array], limit: int) -> pa.Array:
        """Return which rows come first, in order; rows that are equal in the order that they have."""
        arrays: list[pa.Array] = []
        keys: list[tuple[str, str]] = []
        for column, descends in zip(columns, self.descending, strict=True):
            rank, values = _ranked(column)
            for array in (rank, values):
                if array is not None:
                    keys.append((str(len(arrays)), "descending" if descends else "ascending"))
                    arrays.append(array)
        table = pa.table(arrays, names=[str(number) for number in range(len(arrays))])
        return pc.sort_indices(table, sort_keys=keys).slice(0, limit)

    def may_come_before(self, column: pa.Array, bound: pa.Scalar) -> pa.Array:
        """Return, as far as the first column tells, which rows may come before one with that value, or with it."""
        descends = self.descending[0]
        if not bound.is_valid:
            return pa.array(np.ones(len(column), np.bool_)) if descends else column.is_null()
        is_float = arrow.is_floating(column.type)
        if is_float and bool(pc.is_nan(bound).as_py()):
            return pc.is_nan(column).fill_null(False) if descends else pa.array(np.ones(len(column), np.bool_))
        compared = (pc.greater_equal if descends else pc.less_equal)(column, bound)
        if not descends:
            return pc.or_kleene(compared, column.is_null()).fill_null(True)
        if is_float:
            compared = pc.or_kleene(compared, pc.is_nan(column))
        return compared.fill_null(False)


def _ranked(column: pa.Array) -> tuple[pa.Array | None, pa.Array]:
    """Return the rank of each value, None if all are plain, and the plain values, null where there is none."""
    rank = np.full(len(column), _VALUE, np.int8)
    if arrow.is_floating(column.type):
        column = column.cast(pa.float64()) if arrow.is_float16(column.type) else column
        nan = pc.is_nan(column).fill_null(False)
        rank[nan.to_numpy(zero_copy_only=False)] = _HIGH
        column = pc.if_else(nan, pa.scalar(None, column.type), column)
    if column.null_count:
        rank[column.is_null().to_numpy(zero_copy_only=False) & (rank == _VALUE)] = _LOW
    return (None if bool(np.all(rank == _VALUE)) else pa.array(rank)), column
