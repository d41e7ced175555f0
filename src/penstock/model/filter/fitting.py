"""Literals fitted to a column's type, so that a comparison is exact and needs no cast of the column."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as arrow

from penstock.errors import InvalidError
from penstock.model.filter.literals import read_date, read_double, read_integer, read_timestamp
from penstock.model.filter.predicate import Comparator, Value

_EPOCH: Final = datetime(1970, 1, 1)
_OPERATORS: Final[dict[Comparator, Callable[[Any, Any], bool]]] = {
    Comparator.EQUAL: operator.eq,
    Comparator.NOT_EQUAL: operator.ne,
    Comparator.LESS: operator.lt,
    Comparator.LESS_EQUAL: operator.le,
    Comparator.GREATER: operator.gt,
    Comparator.GREATER_EQUAL: operator.ge,
}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A comparison with a literal: the literal in the type to compare in, or the answer for every row."""

    comparator: Comparator
    scalar: pa.Scalar = None
    always: bool | None = None


def is_exact(type_: pa.DataType) -> bool:
    """Tell whether a type holds whole or decimal numbers."""
    return bool(arrow.is_integer(type_) or arrow.is_decimal(type_))


def fit(comparator: Comparator, type_: pa.DataType, value: Value, column: str) -> Fitted:
    """Return the comparison of a column of a type with a literal that is not null.

    Raises:
        InvalidError: the two cannot be compared.
    """
    fitted = _convert(type_, value, column)
    if not isinstance(fitted, Fraction):
        return Fitted(comparator, fitted)
    scale = type_.scale if arrow.is_decimal(type_) else 0
    scaled = fitted * 10**scale
    floor = math.floor(scaled)
    smallest, largest = _range(type_)
    if floor != scaled:
        if comparator in (Comparator.EQUAL, Comparator.NOT_EQUAL):
            return Fitted(comparator, always=comparator is Comparator.NOT_EQUAL)
        comparator = {
            Comparator.LESS: Comparator.LESS_EQUAL,
            Comparator.GREATER_EQUAL: Comparator.GREATER,
        }.get(comparator, comparator)
    if not smallest <= floor <= largest:
        return Fitted(comparator, always=_OPERATORS[comparator](0, floor))
    return Fitted(comparator, _exact_scalar(type_, floor))


def fit_all(type_: pa.DataType, values: Sequence[Value], column: str) -> tuple[pa.DataType, pa.Array]:
    """Return the type in which a column is looked for among literals, and those that it can equal.

    Raises:
        InvalidError: one of them cannot be compared with the column.
    """
    converted = [_convert(type_, value, column) for value in values]
    scalars = [value for value in converted if not isinstance(value, Fraction)]
    if not scalars:
        fitted = [fit(Comparator.EQUAL, type_, value, column) for value in values]
        return type_, pa.array([one.scalar.as_py() for one in fitted if one.scalar is not None], type_)
    if arrow.is_float64(scalars[0].type):
        doubles = [float(value) if isinstance(value, Fraction) else value.as_py() for value in converted]
        return pa.float64(), pa.array([double + 0.0 for double in doubles], pa.float64())
    # A timestamp among dates makes all of them timestamps.
    one_type = all(scalar.type == scalars[0].type for scalar in scalars)
    compare_as = scalars[0].type if one_type else pa.timestamp("us")
    return compare_as, pa.array([scalar.cast(compare_as).as_py() for scalar in scalars], compare_as)


def compare_values(comparator: Comparator, left: Value, right: Value) -> bool | None:
    """Return how two literals compare; None if one is null.

    Raises:
        InvalidError: they are of different kinds.
    """
    if left is None or right is None:
        return None
    if _is_number(left) and _is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)  # type: ignore[arg-type]
        return _OPERATORS[comparator](left, right)
    if type(left) is not type(right):
        raise InvalidError("these literals cannot be compared", left=repr(left), right=repr(right))
    if isinstance(left, datetime) and isinstance(right, datetime):
        return _OPERATORS[comparator](_micros(left), _micros(right))
    return _OPERATORS[comparator](left, right)


def _convert(type_: pa.DataType, value: Value, column: str) -> pa.Scalar | Fraction:
    """Return a literal in the type that it is compared in; a fraction where it is yet to be fitted."""
    try:
        found = _converted(type_, value)
    except InvalidError as error:
        raise InvalidError(error.message, column=column, type=type_, **error.facts) from error
    if found is None:
        raise InvalidError(
            "the column cannot be compared with this literal", column=column, type=type_, value=repr(value)
        )
    return found


def _converted(type_: pa.DataType, value: Value) -> pa.Scalar | Fraction | None:
    assert value is not None
    if is_exact(type_) or arrow.is_floating(type_):
        number = _read_numeric(type_, value)
        if number is not None:
            inexact = isinstance(number, float) or arrow.is_floating(type_)
            return pa.scalar(float(number), pa.float64()) if inexact else Fraction(number)
    elif arrow.is_boolean(type_) and isinstance(value, bool):
        return pa.scalar(value)
    elif (arrow.is_string(type_) or arrow.is_large_string(type_)) and isinstance(value, str):
        return pa.scalar(value, type_)
    elif (arrow.is_binary(type_) or arrow.is_large_binary(type_)) and isinstance(value, str | bytes):
        return pa.scalar(value.encode() if isinstance(value, str) else value, type_)
    elif (arrow.is_date(type_) or arrow.is_timestamp(type_)) and isinstance(value, str | date):
        return _convert_time(type_, value)
    return None


def _read_numeric(type_: pa.DataType, value: Value) -> int | Decimal | float | None:
    if isinstance(value, str):
        return read_integer(value) if arrow.is_integer(type_) else read_double(value)
    return value if _is_number(value) else None  # type: ignore[return-value]


def _convert_time(type_: pa.DataType, value: str | date) -> pa.Scalar:
    if isinstance(value, str):
        value = read_date(value) if arrow.is_date(type_) else read_timestamp(value)
    if arrow.is_date(type_) and not isinstance(value, datetime):
        return pa.scalar(value, type_)
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return pa.scalar(_micros(moment), type_ if arrow.is_timestamp(type_) else pa.timestamp("us"))


def _micros(moment: datetime) -> int:
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | Decimal | float) and not isinstance(value, bool)


def _range(type_: pa.DataType) -> tuple[int, int]:
    if arrow.is_decimal(type_):
        largest = 10**type_.precision - 1
        return -largest, largest
    half = 1 << (type_.bit_width - 1)
    return -half, half - 1


def _exact_scalar(type_: pa.DataType, scaled: int) -> pa.Scalar:
    if arrow.is_decimal(type_):
        digits = tuple(int(digit) for digit in str(abs(scaled)))
        return pa.scalar(Decimal((int(scaled < 0), digits, -type_.scale)), type_)
    return pa.scalar(scaled, type_)
