"""Filters as text: comparisons, AND OR NOT, IN, BETWEEN, IS [NOT] NULL, literals, parentheses.

Precedence as in SQL: comparisons bind tighter than NOT, NOT than AND, AND than OR.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from penstock.errors import LimitError
from penstock.model.filter.literals import TYPED_WORDS, read_number, read_typed
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
    comparisons,
    conjunction,
    depth,
    disjunction,
)
from penstock.model.words.tokens import TOKENS_MAX, Cursor, Kind

FILTER_LENGTH_MAX: Final = 512 << 10
COMPARISONS_MAX: Final = 5_000
"""How many comparisons a filter may have: each is a pass over the column. A list (IN) is one."""

# Written out, a tree has one pair of parentheses for each level; people may write some more.
_PARENTHESES_MAX: Final = FILTER_DEPTH_MAX + 32
_COMPARATORS: Final = {**{comparator.value: comparator for comparator in Comparator}} | {
    "==": Comparator.EQUAL,
    "!=": Comparator.NOT_EQUAL,
}
_KEYWORDS: Final = frozenset(("AND", "OR", "NOT", "IN", "BETWEEN", "IS", "LIKE"))
_WORD_VALUES: Final[dict[str, bool | None]] = {"TRUE": True, "FALSE": False, "NULL": None}


def parse_filter(text: str) -> Predicate:
    """Return what a filter text says.

    Raises:
        InvalidError: the text is no filter; the message names the position and what was expected.
        LimitError: too long, or nested too deep.
    """
    if len(text) > FILTER_LENGTH_MAX:
        raise LimitError(f"a filter has at most {FILTER_LENGTH_MAX} characters", length=len(text))
    reader = _Reader(_cursor(text))
    predicate = reader.read_or()
    if reader.cursor.token.kind is not Kind.END:
        reader.cursor.fail("expected AND, OR or the end of the filter, which has no LIKE and no functions")
    if depth(predicate) > FILTER_DEPTH_MAX:
        raise LimitError(f"a filter is nested at most {FILTER_DEPTH_MAX} deep")
    if comparisons(predicate) > COMPARISONS_MAX:
        raise LimitError(f"a filter has at most {COMPARISONS_MAX} comparisons; put values into a list: IN (...)")
    return predicate


def _cursor(text: str) -> Cursor:
    try:
        return Cursor(text)
    except LimitError as error:
        raise LimitError(
            f"a filter has at most {TOKENS_MAX} words, literals and signs; read rows by key with lookup, or scan "
            "several times"
        ) from error


class _Reader:
    """One pass over a filter text."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._depth = 0

    def read_or(self) -> Predicate:
        predicates = [self._read_and()]
        while self.cursor.accept_word("OR"):
            predicates.append(self._read_and())
        return disjunction(predicates)

    def _read_and(self) -> Predicate:
        predicates = [self._read_not()]
        while self.cursor.accept_word("AND"):
            predicates.append(self._read_not())
        return conjunction(predicates)

    def _read_not(self) -> Predicate:
        negations = 0
        while self.cursor.accept_word("NOT"):
            negations += 1
        self._deepen(negations)
        predicate = self._read_predicate()
        self._depth -= negations
        for _ in range(negations):
            predicate = Not(predicate)
        return predicate

    def _read_predicate(self) -> Predicate:
        left = self._read_primary()
        while self.cursor.at_word("IS"):
            left = self._read_is(left)
        if not isinstance(left, Field | Literal):
            return left
        if self.cursor.token.kind is Kind.SYMBOL and self.cursor.token.text in _COMPARATORS:
            comparator = _COMPARATORS[self.cursor.take().text]
            return Comparison(comparator, left, self._read_operand())
        negated = (self.cursor.at_word("NOT", "IN") or self.cursor.at_word("NOT", "BETWEEN")) and bool(
            self.cursor.take()
        )
        if self.cursor.accept_word("IN"):
            found: Predicate = In(left, self._read_values())
        elif self.cursor.accept_word("BETWEEN"):
            found = self._read_between(left)
        else:
            return left
        return Not(found) if negated else found

    def _read_is(self, left: Predicate) -> Predicate:
        self.cursor.expect_word("IS")
        negated = self.cursor.accept_word("NOT")
        self.cursor.expect_word("NULL")
        return Not(IsNull(left)) if negated else IsNull(left)

    def _read_between(self, operand: Operand) -> Predicate:
        low = self._read_operand()
        self.cursor.expect_word("AND")
        high = self._read_operand()
        return conjunction(
            [
                Comparison(Comparator.GREATER_EQUAL, operand, low),
                Comparison(Comparator.LESS_EQUAL, operand, high),
            ]
        )

    def _read_values(self) -> tuple[Value, ...]:
        self.cursor.expect_symbol("(")
        if self.cursor.accept_symbol(")"):
            return ()
        values = [self._read_value()]
        while self.cursor.accept_symbol(","):
            values.append(self._read_value())
        self.cursor.expect_symbol(")")
        return tuple(values)

    def _read_value(self) -> Value:
        operand = self._read_operand()
        if not isinstance(operand, Literal):
            self.cursor.fail("expected only literals in the list")
        return operand.value

    def _read_primary(self) -> Predicate:
        if not self.cursor.accept_symbol("("):
            return self._read_operand()
        self._deepen(1)
        predicate = self.read_or()
        self.cursor.expect_symbol(")")
        self._depth -= 1
        return predicate

    def _deepen(self, levels: int) -> None:
        self._depth += levels
        if self._depth > _PARENTHESES_MAX:
            raise LimitError(f"a filter is nested at most {FILTER_DEPTH_MAX} deep")

    def _read_operand(self) -> Operand:
        cursor = self.cursor
        token = cursor.token
        if token.kind is Kind.STRING:
            return Literal(cursor.take().text)
        if token.kind is Kind.NUMBER or cursor.at_symbol("-") or cursor.at_symbol("+"):
            return Literal(self._read_signed())
        word = token.text.upper() if token.kind is Kind.WORD else ""
        if word in TYPED_WORDS and cursor.followed_by(Kind.STRING):
            cursor.take()
            return Literal(read_typed(word, cursor.take().text))
        if word in _WORD_VALUES:
            cursor.take()
            return Literal(_WORD_VALUES[word])
        if word in _KEYWORDS:
            cursor.fail("expected a column or a literal")
        return self._read_field()

    def _read_signed(self) -> Value:
        negative = self.cursor.accept_symbol("-")
        if not negative:
            self.cursor.accept_symbol("+")
        number = read_number(self.cursor.expect(Kind.NUMBER, "a number").text)
        if not negative:
            return number
        # Minus would round a decimal to Python's context.
        return number.copy_negate() if isinstance(number, Decimal) else -number

    def _read_field(self) -> Field:
        path = [self.cursor.expect_identifier("a column or a literal")]
        if self.cursor.at_symbol("("):
            self.cursor.fail("functions are not part of filters; expected a comparison")
        while self.cursor.accept_symbol("."):
            path.append(self.cursor.expect_identifier("the name of a field"))
        return Field(tuple(path))
