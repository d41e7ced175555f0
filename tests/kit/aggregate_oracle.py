"""What an aggregating table must hold: a dict of rows, folded one input at a time in plain Python."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pat
from pyroaring import BitMap, BitMap64

from penstock.errors import ArithmeticOverflowError, InvalidError, LimitError, UnsupportedError
from penstock.model.schema.agg_mode import AggMode
from penstock.model.schema.aggregate import DELIMITER, AggFunction
from penstock.model.schema.schema import Column, Schema
from penstock.model.table.properties import Retract, TableProperties

Key = tuple[Any, ...]
Row = dict[str, Any]

_EXACT: Final = Context(prec=200, rounding=ROUND_HALF_UP)
_TAKE_NULLS: Final = (AggFunction.FIRST_VALUE, AggFunction.LAST_VALUE)
_TAKE_BACK: Final = (AggFunction.SUM, AggFunction.COUNT)
_GROW: Final = (AggFunction.LISTAGG, AggFunction.ARRAY_AGG, AggFunction.RBM32, AggFunction.RBM64)
_NEW: Final = object()


class AggregateOracle:
    """The rows of an aggregating table by key. A write that raises leaves them as they were."""

    def __init__(self, schema: Schema, options: TableProperties) -> None:
        self.rows: dict[Key, Row] = {}
        self._schema = schema
        self._options = options

    def write(
        self,
        rows: Sequence[Mapping[str, Any]],
        columns: Iterable[str] | None = None,
        mode: AggMode = AggMode.ACCUMULATE,
        retracts: Sequence[bool] | None = None,
    ) -> tuple[int, int]:
        """Fold rows; return how many changes that makes, and how many rows changed nothing.

        Raises:
            InvalidError: as the table would.
        """
        named = [c for c in self._schema.value_columns if columns is None or c.name in set(columns)]
        inputs: dict[Key, list[tuple[Mapping[str, Any], bool]]] = {}
        for row, back in zip(rows, retracts or [False] * len(rows), strict=True):
            inputs.setdefault(self.key(row), []).append((row, back))
        after, changes, ignored = dict(self.rows), 0, 0
        for key, given in inputs.items():
            folded = self._folded(key, given, named, mode)
            if same(folded, self.rows.get(key)):
                ignored += len(given)
                continue
            changes += 1
            if folded is None:
                del after[key]
            else:
                after[key] = folded
        self.rows = after
        return changes, ignored

    def delete(self, keys: Iterable[Mapping[str, Any]]) -> None:
        """Remove rows."""
        for key in keys:
            self.rows.pop(self.key(key), None)

    def clear(self, keys: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> None:
        """Null some columns; a row that has nothing left goes."""
        for key in {self.key(key) for key in keys} & set(self.rows):
            row = self.rows[key] = self.rows[key] | dict.fromkeys(columns)
            if all(row[column.name] is None for column in self._schema.value_columns):
                del self.rows[key]

    def key(self, row: Mapping[str, Any]) -> Key:
        """Return the key of a row."""
        return tuple(row[name] for name in self._schema.primary_key)

    def _folded(
        self, key: Key, given: list[tuple[Mapping[str, Any], bool]], named: list[Column], mode: AggMode
    ) -> Row | None:
        """Return the row that the inputs of one key make; None where there is none."""
        old = self.rows.get(key)
        values: Row = dict.fromkeys(c.name for c in self._schema.value_columns) if old is None else dict(old)
        touched = set()
        for column in self._schema.value_columns:
            if column not in named:
                if column.agg is AggFunction.FIRST_VALUE and old is None:
                    raise InvalidError("a new row needs its first_value")
                continue
            inputs = [(row[column.name], back) for row, back in given if self._counts(column, row[column.name], back)]
            value = _NEW if old is None else old[column.name]
            if mode is AggMode.REPLACE:
                value = given[-1][0][column.name]
            else:
                if column.agg is AggFunction.COUNT and value in (_NEW, None):
                    value = 0
                for one, back in inputs:
                    value = _step(column, value, one, mode, back=back)
            if inputs:
                touched.add(column.name)
            values[column.name] = self._checked(column, None if value is _NEW else value, touched=bool(inputs))
        counter = self._options.aggregate_delete_at_zero
        if counter is not None and counter in touched and values[counter] == 0:
            return None
        if old is None and all(back for _, back in given) and all(value is None for value in values.values()):
            return None
        return values

    def _counts(self, column: Column, value: Any, back: bool) -> bool:
        """Tell whether an input says something to its function."""
        if value is None and column.agg not in _TAKE_NULLS:
            return False
        if not back or column.agg in _TAKE_BACK:
            return True
        if self._options.aggregate_retract is Retract.ERROR:
            raise UnsupportedError("the function cannot take a value back")
        return False

    def _checked(self, column: Column, value: Any, *, touched: bool) -> Any:
        if value is None:
            return None
        if column.agg in (AggFunction.SUM, AggFunction.PRODUCT, AggFunction.COUNT):
            if pat.is_float32(column.type):
                return _single(value)
            if not fits(column.type, value):
                raise ArithmeticOverflowError("the aggregate does not fit its column")
        if column.agg in _GROW and touched and size_of(value, column.type) > self._options.aggregate_max_value_bytes:
            raise LimitError("the aggregate grows too large")
        return value


def _step(column: Column, value: Any, given: Any, mode: AggMode, *, back: bool) -> Any:
    """Fold one input that counts into a value; `_NEW` is the value of a row that is not there."""
    function = column.agg
    none = value is _NEW or value is None
    if function is AggFunction.COUNT:
        one = given if mode is AggMode.MERGE_STATE else 1
        return value - one if back else value + one
    if function is AggFunction.SUM:
        signed = _negated(given) if back else given
        return signed if none else _plus(value, signed)
    if function is AggFunction.FIRST_VALUE:
        return given if value is _NEW else value
    if function is AggFunction.FIRST_VALUE_IGNORE_NULLS:
        return given if none else value
    if none or function in (AggFunction.LAST_VALUE, AggFunction.LAST_VALUE_IGNORE_NULLS):
        return given
    return _COMBINE[function](column, value, given) if function is not None else None


def _plus(left: Any, right: Any) -> Any:
    return _EXACT.add(left, right) if isinstance(left, Decimal) else left + right


def _negated(value: Any) -> Any:
    return _EXACT.minus(value) if isinstance(value, Decimal) else -value


def _times(column: Column, left: Any, right: Any) -> Any:
    if not isinstance(left, Decimal):
        return left * right
    return _EXACT.quantize(_EXACT.multiply(left, right), Decimal(1).scaleb(-column.type.scale))


def _order(value: Any) -> Any:
    """Return what orders values: NaN is greatest, -0.0 less than 0.0; texts go by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0 if math.isnan(value) else value, math.copysign(1, value))
    return value.encode() if isinstance(value, str) else value


def _united(kind: type[BitMap] | type[BitMap64], left: bytes, right: bytes) -> bytes:
    one, other = set(kind.deserialize(left)), set(kind.deserialize(right))
    return left if other <= one else kind(one | other).serialize()


_COMBINE: Final[dict[AggFunction, Callable[[Column, Any, Any], Any]]] = {
    AggFunction.PRODUCT: _times,
    AggFunction.MIN: lambda _, left, right: min(left, right, key=_order),
    AggFunction.MAX: lambda _, left, right: max(left, right, key=_order),
    AggFunction.LISTAGG: lambda column, left, right: left + column.agg_params[DELIMITER] + right,
    AggFunction.ARRAY_AGG: lambda _, left, right: left + right,
    AggFunction.BOOL_AND: lambda _, left, right: left and right,
    AggFunction.BOOL_OR: lambda _, left, right: left or right,
    AggFunction.RBM32: lambda _, left, right: _united(BitMap, left, right),
    AggFunction.RBM64: lambda _, left, right: _united(BitMap64, left, right),
}


def fits(kind: pa.DataType, value: Any) -> bool:
    """Tell whether a column of the type holds the value."""
    if pat.is_floating(kind):
        return True
    if pat.is_decimal(kind):
        return bool(value.copy_abs() < Decimal(10) ** (kind.precision - kind.scale))
    return bool(-(1 << (kind.bit_width - 1)) <= value < 1 << (kind.bit_width - 1))


def size_of(value: Any, kind: pa.DataType) -> int:
    """Return how many bytes of data a value has."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, list):
        return sum(size_of(item, kind.value_type) for item in value)
    if pat.is_string(kind) or pat.is_large_string(kind):
        return 0
    return max(1, int(kind.bit_width) // 8)


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are the same, floats by their bits, all NaNs alike."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or struct.pack("d", left) == struct.pack("d", right)
    return bool(left == right)


def _single(value: float) -> float:
    """Return a float as 32 bits hold it."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
