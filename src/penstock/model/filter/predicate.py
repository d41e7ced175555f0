"""What a filter says, as a small tree; and the tree as text, which is also how filters travel.

The tree knows no types: `penstock.model.filter.binding` gives it a schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias

from penstock.model.words.tokens import quote_identifier, quote_string

FILTER_DEPTH_MAX: Final = 64
"""How deep a filter's tree may be; a chain of ANDs or of ORs is one level."""

Value: TypeAlias = "bool | int | Decimal | float | str | bytes | date | datetime | None"


class Comparator(StrEnum):
    """How two values are compared."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="

    @property
    def flipped(self) -> Comparator:
        """Return the comparator that says the same with its sides exchanged."""
        return _FLIPPED.get(self, self)


_FLIPPED = {
    Comparator.LESS: Comparator.GREATER,
    Comparator.LESS_EQUAL: Comparator.GREATER_EQUAL,
    Comparator.GREATER: Comparator.LESS,
    Comparator.GREATER_EQUAL: Comparator.LESS_EQUAL,
}


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field of a struct: `("s", "a")`."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands in the filter."""

    value: Value


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values compared."""

    comparator: Comparator
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class In:
    """A value among others; with a null among them, never plainly false."""

    operand: Operand
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a value, or the truth of a predicate, is unknown."""

    operand: Predicate


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary; of unknown, unknown."""

    predicate: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of them."""

    predicates: tuple[Predicate, ...]


Operand: TypeAlias = Field | Literal
Predicate: TypeAlias = Operand | Comparison | In | IsNull | Not | And | Or


def conjunction(predicates: list[Predicate]) -> Predicate:
    """Return one predicate that says all of them, without needless nesting."""
    flat = [inner for p in predicates for inner in (p.predicates if isinstance(p, And) else (p,))]
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def disjunction(predicates: list[Predicate]) -> Predicate:
    """Return one predicate that says one of them, without needless nesting."""
    flat = [inner for p in predicates for inner in (p.predicates if isinstance(p, Or) else (p,))]
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def depth(predicate: Predicate) -> int:
    """Return how many predicates stand inside each other."""
    match predicate:
        case And(inners) | Or(inners):
            return 1 + max(depth(inner) for inner in inners)
        case Not(inner) | IsNull(inner):
            return 1 + depth(inner)
        case _:
            return 1


def comparisons(predicate: Predicate) -> int:
    """Return how many passes over a column it takes; a list of values is one."""
    match predicate:
        case And(inners) | Or(inners):
            return sum(comparisons(inner) for inner in inners)
        case Not(inner) | IsNull(inner):
            return comparisons(inner)
        case _:
            return 1


def format_predicate(predicate: Predicate) -> str:
    """Return a text that the filter grammar reads back as the same tree."""
    match predicate:
        case Field(path):
            return ".".join(quote_identifier(name) for name in path)
        case Literal(value):
            return format_value(value)
        case Comparison(comparator, left, right):
            return f"{format_predicate(left)} {comparator} {format_predicate(right)}"
        case In(operand, values):
            return f"{format_predicate(operand)} IN ({', '.join(format_value(value) for value in values)})"
        case IsNull(operand):
            return f"({format_predicate(operand)}) IS NULL"
        case Not(inner):
            return f"NOT ({format_predicate(inner)})"
        case And(inners):
            return " AND ".join(f"({format_predicate(inner)})" for inner in inners)
        case Or(inners):
            return " OR ".join(f"({format_predicate(inner)})" for inner in inners)


def format_value(value: Value) -> str:
    """Return a literal as the filter grammar reads it."""
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, float):
        return f"DOUBLE '{value!r}'"
    if isinstance(value, Decimal):
        # A point marks a decimal: Decimal("1") would read back as a whole number.
        text = f"{value:f}"
        return text if "." in text else f"{text}."
    if isinstance(value, str):
        return quote_string(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime):
        word = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
        return f"{word} '{value.isoformat(' ', 'microseconds')}'"
    return f"DATE '{value.isoformat()}'" if isinstance(value, date) else str(value)
