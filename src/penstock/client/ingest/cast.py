"""One column of foreign values to the type that its table has: done if nothing is lost, else refused.

What is safe is decided by type first (a string is never parsed, a number never printed), then by
value: 7 fits an int32 column from int64, 3,000,000,000 does not, and the message says which row.
A timestamp without zone is taken as UTC where the column has a zone; the reverse is refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow

from penstock.client.ingest.nested_cast import cast_nested
from penstock.errors import SchemaMismatchError

# What Arrow raises for values that do not convert; OverflowError comes from Python's own integers.
CONVERSION_ERRORS: Final = (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError)
_DECIMAL_DIGITS: Final = 38
_OTHER_OBJECT: Final = re.compile(r"Expected bytes|Could not convert|tried to convert|expected a sequence")

V = TypeVar("V", pa.Array, Sequence[Any])


def castable(source: pa.DataType, target: pa.DataType, *, rounding: bool = False) -> bool:
    """Tell whether values of one type may become values of another; each value is still checked.

    `rounding` allows doubles into float columns: a Python float has no narrower form to come in.
    """
    if source.equals(target) or arrow.is_null(source):
        return True
    if arrow.is_dictionary(source):
        return castable(source.value_type, target, rounding=rounding)
    if arrow.is_nested(source) or arrow.is_nested(target):
        return _nested_castable(source, target, rounding=rounding)
    if arrow.is_timestamp(source):
        if arrow.is_timestamp(target):
            return source.tz is None or target.tz is not None
        return source.tz is None and arrow.is_date(target)
    return any(family(source) and takes(target) for family, takes in _FAMILIES)


def _nested_castable(source: pa.DataType, target: pa.DataType, *, rounding: bool) -> bool:
    if _is_list(source) and _is_list(target):
        pairs = [(source.value_type, target.value_type)]
    elif arrow.is_map(source) and arrow.is_map(target):
        pairs = [(source.key_type, target.key_type), (source.item_type, target.item_type)]
    elif arrow.is_struct(source) and arrow.is_struct(target):
        theirs, ours = ({field.name: field.type for field in kind} for kind in (source, target))
        if theirs.keys() != ours.keys() or len(theirs) != source.num_fields:
            return False
        pairs = [(theirs[name], ours[name]) for name in ours]
    else:
        return False
    return all(castable(a, b, rounding=rounding) and not _needs_a_look(a, b, rounding=rounding) for a, b in pairs)


def _needs_a_look(source: pa.DataType, target: pa.DataType, *, rounding: bool) -> bool:
    # Casts whose values only the flat path compares afterwards.
    narrowing = arrow.is_float64(source) and arrow.is_float32(target) and not rounding
    return narrowing or (arrow.is_floating(source) and arrow.is_integer(target)) or _is_day_of_time(source, target)


def _is_day_of_time(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(arrow.is_timestamp(source) and arrow.is_date(target))


def _is_list(kind: pa.DataType) -> bool:
    return bool(arrow.is_list(kind) or arrow.is_large_list(kind) or arrow.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(arrow.is_string(kind) or arrow.is_large_string(kind) or arrow.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    variable = arrow.is_binary(kind) or arrow.is_large_binary(kind) or arrow.is_binary_view(kind)
    return bool(variable or arrow.is_fixed_size_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(arrow.is_integer(kind) or arrow.is_floating(kind) or arrow.is_decimal(kind))


_FAMILIES: Final[list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]]]] = [
    (arrow.is_integer, _is_number),
    (arrow.is_floating, lambda kind: bool(arrow.is_floating(kind) or arrow.is_integer(kind))),
    (arrow.is_decimal, arrow.is_decimal),
    (_is_text, _is_text),
    (_is_bytes, _is_bytes),
    (arrow.is_date, arrow.is_date),
    (arrow.is_time, arrow.is_time),
]


def cast_array(values: pa.Array, field: pa.Field) -> pa.Array:
    """Return Arrow values in the column's type.

    Raises:
        SchemaMismatchError: the type has no place there, or a value would be lost; names column and row.
    """
    if values.type.equals(field.type):
        return values
    if arrow.is_run_end_encoded(values.type):
        return cast_array(pc.run_end_decode(values), field)
    if not castable(values.type, field.type):
        raise _wrong_type(field, values.type)
    try:
        return _cast(values, field.type, rounding=False)
    except CONVERSION_ERRORS as error:
        row = _first_failing(values, lambda part: _cast(part, field.type, rounding=False))
        raise _lost(field, row, _shown(values[row]), error) from error


def cast_objects(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Return Python values as an array of the column's type.

    Raises:
        SchemaMismatchError: a value is of another type or would be lost; names column and row.
    """
    try:
        return _from_objects(values, field.type)
    except CONVERSION_ERRORS as error:
        row = _first_failing(values, lambda part: _from_objects(part, field.type))
        raise _lost(field, row, values[row], error) from error


def _from_objects(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    # Arrow converts towards a type it is told by cutting (1.5 to 1, a time to its day); what it infers
    # is faithful, and the cast from there is checked. It cannot infer maps from pairs.
    if arrow.is_map(target):
        return pa.array(values, target)
    if arrow.is_temporal(target) and len({type(value) for value in values} - {type(None)}) > 1:
        raise pa.ArrowTypeError("dates and times of several types in one column")
    inferred = pa.array(values)
    if not castable(inferred.type, target, rounding=True):
        raise pa.ArrowTypeError(f"{inferred.type} is no {target}")
    return pa.array(values, target) if arrow.is_nested(target) else _cast(inferred, target, rounding=True)


def _cast(values: pa.Array, target: pa.DataType, *, rounding: bool) -> pa.Array:
    source = values.type
    if arrow.is_nested(source) and arrow.is_nested(target):
        return cast_nested(values, target, functools.partial(_cast, rounding=rounding))
    if arrow.is_integer(source) and arrow.is_decimal(target):
        # Arrow asks for room for every integer of the type; ours need room for themselves only.
        values = values.cast(pa.decimal128(_DECIMAL_DIGITS, target.scale))
    result = pc.cast(values, target, safe=True)
    if arrow.is_float64(source) and arrow.is_float32(target):
        _refuse_narrowing(values, result, rounding=rounding)
    elif _is_day_of_time(source, target) and not result.cast(source).equals(values):
        raise pa.ArrowInvalid("a time of day would be lost")
    return result


def _refuse_narrowing(wide: pa.Array, narrow: pa.Array, *, rounding: bool) -> None:
    before = wide.fill_null(0).to_numpy(zero_copy_only=False)
    after = narrow.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    if rounding:
        if np.any(np.isinf(after) & ~np.isinf(before)):
            raise pa.ArrowInvalid("a value is beyond the range of a float")
    elif not np.array_equal(before, after, equal_nan=True):
        raise pa.ArrowInvalid("digits would be lost; cast to float yourself if that is meant")


def _first_failing(values: V, convert: Callable[[V], object]) -> int:
    """Return the row that makes a conversion fail: the last of the shortest prefix that does."""
    good, bad = 0, len(values)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            convert(values[:middle])
        except CONVERSION_ERRORS:
            bad = middle
        else:
            good = middle
    return bad - 1


def _shown(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        # A moment that Python's own types do not reach.
        return value


def _wrong_type(field: pa.Field, found: pa.DataType) -> SchemaMismatchError:
    return SchemaMismatchError(
        "the data has a type that the column cannot take without loss; cast it first",
        column=field.name,
        type=str(found),
        wanted=str(field.type),
    )


def _lost(field: pa.Field, row: int, value: object, error: BaseException) -> SchemaMismatchError:
    reason = str(error).splitlines()[0][:200].rstrip(".")
    if _OTHER_OBJECT.match(reason):
        # Arrow takes the type of a column from its first rows, and calls text bytes.
        reason = f"{type(value).__name__} is no {field.type}"
    return SchemaMismatchError(
        f"a value does not fit its column ({reason})",
        column=field.name,
        row=row,
        value=repr(value)[:80],
        wanted=str(field.type),
    )
