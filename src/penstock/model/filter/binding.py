"""A predicate given a schema: types fitted to each other as Spark does it, then run on arrays.

Truth has three values: an array's null is *unknown*. Literals are fitted to the column, not the
column to the literal, so that exact numbers are compared exactly and at the speed of one kernel:
`n > 10.5` on whole numbers is `n > 10`. Doubles follow Spark: NaN equals itself and is the greatest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow

from penstock.errors import InvalidError
from penstock.model.filter.fitting import Fitted, compare_values, fit, fit_all, is_exact
from penstock.model.filter.predicate import (
    And,
    Comparator,
    Comparison,
    Field,
    In,
    IsNull,
    Literal,
    Not,
    Operand,
    Or,
    Predicate,
    Value,
)
from penstock.model.schema.schema import Schema
from penstock.model.words.names import fold

Arrays: TypeAlias = Mapping[str, pa.Array]
Truth: TypeAlias = Callable[[Arrays], Any]
"""Runs on the arrays of some rows; returns a boolean array, or one boolean scalar for all rows."""

# Not by `pa.scalar`, which loads pandas where it is installed.
UNKNOWN: Final = pa.nulls(1, pa.bool_())[0]
_KERNELS: Final = {
    Comparator.EQUAL: pc.equal,
    Comparator.NOT_EQUAL: pc.not_equal,
    Comparator.LESS: pc.less,
    Comparator.LESS_EQUAL: pc.less_equal,
    Comparator.GREATER: pc.greater,
    Comparator.GREATER_EQUAL: pc.greater_equal,
}


class Binding:
    """Binds predicates to a schema; collects the columns that they need."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.columns: dict[str, None] = {}

    def bind(self, predicate: Predicate) -> Truth:
        """Return the predicate, ready to run.

        Raises:
            InvalidError: an unknown column, or types that cannot be compared.
        """
        match predicate:
            case Field():
                return self._bind_flag(predicate)
            case Literal(value):
                return _bind_constant(value)
            case Comparison(comparator, left, right):
                return self._bind_comparison(comparator, left, right)
            case In(operand, values):
                return self._bind_in(operand, values)
            case IsNull(operand):
                return self._bind_is_null(operand)
            case Not(inner):
                truth = self.bind(inner)
                return lambda arrays: pc.invert(truth(arrays))
            case And(inners):
                return _fold(pc.and_kleene, [self.bind(inner) for inner in inners])
            case Or(inners):
                return _fold(pc.or_kleene, [self.bind(inner) for inner in inners])

    def _bind_flag(self, field: Field) -> Truth:
        read, type_ = self._resolve(field)
        if not arrow.is_boolean(type_):
            raise InvalidError("only a boolean column is a condition by itself", column=_shown(field), type=str(type_))
        return read

    def _bind_is_null(self, operand: Predicate) -> Truth:
        value = self._resolve(operand)[0] if isinstance(operand, Field) else self.bind(operand)
        return lambda arrays: pc.is_null(value(arrays))

    def _bind_comparison(self, comparator: Comparator, left: Operand, right: Operand) -> Truth:
        if isinstance(left, Literal):
            if isinstance(right, Literal):
                return _bind_constant(compare_values(comparator, left.value, right.value))
            return self._bind_comparison(comparator.flipped, right, left)
        read, type_ = self._resolve(left)
        if isinstance(right, Field):
            other, other_type = self._resolve(right)
            return _compare_columns(comparator, (read, type_, _shown(left)), (other, other_type, _shown(right)))
        if right.value is None:
            return lambda _: UNKNOWN
        return _compare_literal(comparator, read, fit(comparator, type_, right.value, _shown(left)))

    def _bind_in(self, operand: Operand, values: tuple[Value, ...]) -> Truth:
        if isinstance(operand, Literal):
            equal = [self._bind_comparison(Comparator.EQUAL, operand, Literal(value)) for value in values]
            return _fold(pc.or_kleene, equal)
        read, type_ = self._resolve(operand)
        known = [value for value in values if value is not None]
        compare_as, value_set = fit_all(type_, known, _shown(operand))
        prepare = _preparation(type_, compare_as)

        def among(arrays: Arrays) -> pa.Array:
            column = prepare(read(arrays))
            found = pc.if_else(column.is_valid(), pc.is_in(column, value_set), UNKNOWN)
            return found if len(known) == len(values) else pc.or_kleene(found, UNKNOWN)

        return among

    def _resolve(self, field: Field) -> tuple[Callable[[Arrays], pa.Array], pa.DataType]:
        try:
            column = self._schema.find(field.path[0])
        except InvalidError as error:
            raise InvalidError(f"{error.message}; texts stand in 'single quotes'", **error.facts) from error
        name, type_ = column.name, column.type
        self.columns[name] = None
        indices = []
        for part in field.path[1:]:
            index = _struct_index(type_, part, field)
            indices.append(index)
            type_ = type_.field(index).type
        if not indices:
            return (lambda arrays: arrays[name]), type_
        return (lambda arrays: pc.struct_field(arrays[name], indices)), type_


def _struct_index(type_: pa.DataType, name: str, field: Field) -> int:
    names = [type_.field(position).name for position in range(type_.num_fields)] if arrow.is_struct(type_) else []
    if name in names:
        return names.index(name)
    folded = [fold(known) for known in names]
    if fold(name) not in folded:
        raise InvalidError("no such field", column=_shown(field), type=str(type_))
    return folded.index(fold(name))


def _bind_constant(value: Value) -> Truth:
    if value is not None and not isinstance(value, bool):
        raise InvalidError("only TRUE, FALSE and NULL are conditions by themselves", value=repr(value))
    constant = pa.scalar(value, pa.bool_())
    return lambda _: constant


def _fold(kernel: Callable[[Any, Any], Any], truths: list[Truth]) -> Truth:
    def run(arrays: Arrays) -> Any:
        result = truths[0](arrays)
        for truth in truths[1:]:
            result = kernel(result, truth(arrays))
        return result

    return run


def _compare_literal(comparator: Comparator, read: Callable[[Arrays], pa.Array], fitted: Fitted) -> Truth:
    if fitted.always is not None:
        # Decided by the literal alone, except that of null nothing is known.
        constant = pa.scalar(fitted.always)
        return lambda arrays: pc.if_else(pc.is_valid(read(arrays)), constant, UNKNOWN)
    literal = fitted.scalar
    prepare = _preparation(None, literal.type)
    if arrow.is_float64(literal.type):
        return lambda arrays: _compare_doubles(fitted.comparator, prepare(read(arrays)), literal)
    kernel = _KERNELS[fitted.comparator]
    return lambda arrays: kernel(prepare(read(arrays)), literal)


def _preparation(type_: pa.DataType | None, compare_as: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """Return what brings a column to the type in which it is compared."""

    def prepare(column: pa.Array) -> pa.Array:
        cast = column if column.type == compare_as else column.cast(compare_as, safe=False)
        # Arrow's sets tell the two zeroes apart; adding zero makes them one.
        return pc.add(cast, 0.0) if type_ is not None and arrow.is_float64(compare_as) else cast

    return prepare


_Side: TypeAlias = tuple[Callable[[Arrays], pa.Array], pa.DataType, str]


def _compare_columns(comparator: Comparator, left: _Side, right: _Side) -> Truth:
    (read_left, left_type, left_name), (read_right, right_type, right_name) = left, right
    compare_as = _common_type(left_type, right_type)
    if compare_as is None:
        raise InvalidError(
            "these columns cannot be compared", left=f"{left_name}:{left_type}", right=f"{right_name}:{right_type}"
        )
    prepare = _preparation(None, compare_as)
    if arrow.is_float64(compare_as):
        return lambda arrays: _compare_doubles(comparator, prepare(read_left(arrays)), prepare(read_right(arrays)))
    kernel = _KERNELS[comparator]
    return lambda arrays: kernel(prepare(read_left(arrays)), prepare(read_right(arrays)))


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    both = (left, right)
    if all(is_exact(type_) or arrow.is_floating(type_) for type_ in both):
        if any(arrow.is_floating(type_) for type_ in both):
            return pa.float64()
        if all(arrow.is_integer(type_) for type_ in both):
            return pa.int64()
        # 38 digits before the point and 38 after it always fit.
        return pa.decimal256(76, max(type_.scale for type_ in both if arrow.is_decimal(type_)))
    if all(arrow.is_string(type_) or arrow.is_large_string(type_) for type_ in both):
        return left if left == right else pa.large_string()
    if all(arrow.is_binary(type_) or arrow.is_large_binary(type_) for type_ in both):
        return left if left == right else pa.large_binary()
    if all(arrow.is_date(type_) or arrow.is_timestamp(type_) for type_ in both):
        return left if left == right else pa.timestamp("us")
    return left if left == right and arrow.is_boolean(left) else None


def _compare_doubles(comparator: Comparator, left: pa.Array, right: pa.Array | pa.Scalar) -> pa.Array:
    match comparator:
        case Comparator.EQUAL:
            return pc.or_kleene(pc.equal(left, right), pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))
        case Comparator.NOT_EQUAL:
            return pc.invert(_compare_doubles(Comparator.EQUAL, left, right))
        case Comparator.GREATER_EQUAL:
            # NaN is the greatest; of a null on the other side still nothing is known.
            return pc.or_kleene(pc.greater_equal(left, right), pc.and_kleene(pc.is_nan(left), _known(right)))
        case Comparator.LESS_EQUAL:
            return pc.or_kleene(pc.less_equal(left, right), pc.and_kleene(pc.is_nan(right), _known(left)))
        case Comparator.GREATER:
            return pc.invert(_compare_doubles(Comparator.LESS_EQUAL, left, right))
        case Comparator.LESS:
            return pc.invert(_compare_doubles(Comparator.GREATER_EQUAL, left, right))


def _known(side: pa.Array | pa.Scalar) -> Any:
    return pc.if_else(pc.is_valid(side), True, UNKNOWN)


def _shown(field: Field) -> str:
    return ".".join(field.path)
