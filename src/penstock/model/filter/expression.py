"""Filters as pyarrow expressions: `col("amount") > 10`.

pyarrow keeps an expression's inside to itself, but writes it out as an Arrow stream whose schema
metadata is the tree in prefix order, and whose columns are its literals. That is read here, and the
tree is built up as an expression again and compared: what was not understood exactly is refused.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow

from penstock.errors import InvalidError, LimitError
from penstock.model.filter.literals import DIGITS_MAX
from penstock.model.filter.predicate import (
    FILTER_DEPTH_MAX,
    Comparator,
    Comparison,
    Field,
    In,
    IsNull,
    Literal,
    Not,
    Operand,
    Predicate,
    Value,
    conjunction,
    disjunction,
)

_COMPARATORS: Final[dict[str, tuple[Comparator, Callable[[Any, Any], Any]]]] = {
    "equal": (Comparator.EQUAL, operator.eq),
    "not_equal": (Comparator.NOT_EQUAL, operator.ne),
    "less": (Comparator.LESS, operator.lt),
    "less_equal": (Comparator.LESS_EQUAL, operator.le),
    "greater": (Comparator.GREATER, operator.gt),
    "greater_equal": (Comparator.GREATER_EQUAL, operator.ge),
}
_STEP: Final = re.compile(r"^(call|end|field_ref|nested_field_ref|literal|options): '(.*)'$")
_HELP: Final = "a filter is made of comparisons, & | ~, isin, is_null and is_valid on columns by name"


@dataclass
class _Call:
    """A call as far as it has been read: what it means, and the expression it was."""

    name: str
    level: int = 0
    means: list[Predicate] = field(default_factory=list)
    arguments: list[pc.Expression] = field(default_factory=list)
    options: pa.StructScalar | None = None


def read_expression(expression: pc.Expression) -> Predicate:
    """Return what a pyarrow expression says.

    Raises:
        InvalidError: it is made of something that filters do not have.
        LimitError: nested too deep.
    """
    try:
        batch = pa.ipc.open_file(expression.__reduce__()[1][0]).get_batch(0)
    except (pa.ArrowException, NotImplementedError) as cause:
        raise InvalidError(_HELP, expression=_shown(expression)) from cause
    try:
        predicate, rebuilt = _read_steps(batch)
    except (IndexError, KeyError, ValueError) as cause:
        if isinstance(cause, InvalidError):
            raise
        raise InvalidError(_HELP, expression=_shown(expression)) from cause
    if not rebuilt.equals(expression):
        raise InvalidError(f"{_HELP}; this one cannot be read, write it as a string", expression=_shown(expression))
    return predicate


def _read_steps(batch: pa.RecordBatch) -> tuple[Predicate, pc.Expression]:
    # The empty call at the bottom takes the whole tree as its one argument.
    stack = [_Call("")]
    steps = _steps(batch.schema)
    position = 0
    while position < len(steps):
        step, value = steps[position]
        position += 1
        if step == "call":
            stack.append(_Call(value, _level(value, stack[-1])))
        elif step == "end":
            call = stack.pop()
            predicate, expression = _close(call)
            stack[-1].means.append(predicate)
            stack[-1].arguments.append(expression)
        elif step == "options":
            stack[-1].options = batch.column(int(value))[0]
        elif step == "literal":
            scalar = batch.column(int(value))[0]
            stack[-1].means.append(Literal(_read_scalar(scalar)))
            stack[-1].arguments.append(pc.scalar(scalar))
        else:
            length = int(value) if step == "nested_field_ref" else 0
            path = [name for _, name in steps[position : position + length]] or [value]
            position += length
            stack[-1].means.append(Field(tuple(path)))
            stack[-1].arguments.append(pc.field(*path))
    (predicate,), (expression,) = stack[0].means, stack[0].arguments
    return predicate, expression


def _level(name: str, parent: _Call) -> int:
    # A chain of & or of | becomes one flat node, however long.
    level = parent.level + (name != parent.name or name not in ("and_kleene", "or_kleene"))
    if level > FILTER_DEPTH_MAX:
        raise LimitError(f"a filter is nested at most {FILTER_DEPTH_MAX} deep")
    return level


def _steps(schema: pa.Schema) -> list[tuple[str, str]]:
    # A dict of the metadata would keep one of each word only; the printed form has all, in order.
    text = schema.to_string(show_field_metadata=False, show_schema_metadata=True, truncate_metadata=False)
    lines = text.rpartition("-- schema metadata --\n")[2].split("\n")
    steps = []
    for line in lines:
        match = _STEP.match(line)
        if match is None:
            raise ValueError(line)
        steps.append((match[1], match[2]))
    return steps


def _close(call: _Call) -> tuple[Predicate, pc.Expression]:
    name, means, arguments = call.name, call.means, call.arguments
    if name in ("and_kleene", "or_kleene"):
        left, right = arguments
        joined = conjunction(means) if name == "and_kleene" else disjunction(means)
        return joined, left & right if name == "and_kleene" else left | right
    if name == "invert":
        return Not(means[0]), ~arguments[0]
    if name in _COMPARATORS:
        comparator, compare = _COMPARATORS[name]
        left_side, right_side = (_operand(side) for side in means)
        return Comparison(comparator, left_side, right_side), compare(*arguments)
    if name == "is_null":
        return IsNull(means[0]), arguments[0].is_null()
    if name == "is_valid":
        return Not(IsNull(means[0])), arguments[0].is_valid()
    if name == "is_in" and call.options is not None:
        values = call.options["value_set"].values
        return In(_operand(means[0]), tuple(_read_scalar(value) for value in values)), arguments[0].isin(values)
    raise InvalidError(f"{_HELP}; it has no {name}")


def _operand(side: Predicate) -> Operand:
    if not isinstance(side, Field | Literal):
        raise InvalidError(f"{_HELP}; a comparison has columns and literals on its sides")
    return side


def _read_scalar(scalar: pa.Scalar) -> Value:
    if arrow.is_timestamp(scalar.type):
        scalar = scalar.cast(pa.timestamp("us", tz=scalar.type.tz))
    value = scalar.as_py()
    if value is not None and not isinstance(value, bool | int | float | Decimal | str | bytes | date | datetime):
        raise InvalidError("a literal of this type is not part of filters", type=str(scalar.type))
    if isinstance(value, Decimal) and len(value.as_tuple().digits) > DIGITS_MAX:
        raise InvalidError(f"a number has at most {DIGITS_MAX} digits", number=str(value))
    return value


def _shown(expression: pc.Expression) -> str:
    text = str(expression)
    return text if len(text) <= 200 else f"{text[:197]}..."
