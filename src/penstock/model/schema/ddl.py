"""Schemas as text: `id BIGINT, city STRING NOT NULL, revenue DECIMAL(18, 2) SUM, PRIMARY KEY (id)`.

Keywords are read in any case; a name that is no plain word stands in backticks or double quotes.
After a column's type may follow, in any order: `NOT NULL`, `PRIMARY KEY`, an aggregate function
(`LISTAGG('|')` with its delimiter), `COMMENT '...'`, which is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.errors import InvalidError, LimitError
from penstock.model.schema.aggregate import CHOICES, AggFunction
from penstock.model.schema.schema import Schema, checked, make_column, require
from penstock.model.schema.type_words import read_type
from penstock.model.words.tokens import Cursor, Kind

TEXT_LENGTH_MAX: Final = 1 << 20
_FUNCTION_WORDS: Final = frozenset(CHOICES.upper().split(", "))


@dataclass
class _Definition:
    """A column as far as its definition has been read."""

    name: str
    type: pa.DataType
    nullable: bool = True
    key: bool = False
    agg: AggFunction | None = None
    delimiter: str | None = None


def parse_ddl(text: str) -> Schema:
    """Return the schema that a text describes.

    Raises:
        InvalidError: the text is no schema; the message names the position and what was expected.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise LimitError(f"a schema's text has at most {TEXT_LENGTH_MAX} characters", length=len(text))
    cursor = Cursor(text)
    definitions: list[_Definition] = []
    key: list[str] | None = None
    while True:
        if _at_key_clause(cursor):
            if key is not None:
                cursor.fail("expected one primary key")
            key = _read_key(cursor)
        else:
            definitions.append(_read_column(cursor))
        if not cursor.accept_symbol(","):
            break
    if cursor.token.kind is not Kind.END:
        cursor.fail("expected ',' or the end")
    return _build(definitions, key)


def _at_key_clause(cursor: Cursor) -> bool:
    return cursor.at_word("CONSTRAINT") or cursor.at_word("PRIMARY", "KEY")


def _read_key(cursor: Cursor) -> list[str]:
    if cursor.accept_word("CONSTRAINT"):
        cursor.expect_identifier("a name for the constraint")
    cursor.expect_word("PRIMARY", "KEY")
    cursor.expect_symbol("(")
    names = [cursor.expect_identifier("a key column")]
    while cursor.accept_symbol(","):
        names.append(cursor.expect_identifier("a key column"))
    cursor.expect_symbol(")")
    if not cursor.accept_word("NOT", "ENFORCED"):
        cursor.accept_word("ENFORCED")
    return names


def _read_column(cursor: Cursor) -> _Definition:
    name = cursor.expect_identifier("a column name")
    definition = _Definition(name, read_type(cursor))
    while cursor.token.kind is Kind.WORD:
        if cursor.accept_word("NOT", "NULL"):
            definition.nullable = False
        elif cursor.accept_word("NULL"):
            definition.nullable = True
        elif cursor.accept_word("PRIMARY", "KEY"):
            definition.key = True
        elif cursor.accept_word("COMMENT"):
            cursor.expect(Kind.STRING, "a comment in single quotes")
        elif cursor.token.text.upper() in _FUNCTION_WORDS and definition.agg is None:
            definition.agg = AggFunction.parse(cursor.take().text)
            definition.delimiter = _read_delimiter(cursor)
        else:
            cursor.fail(f"expected ',', NOT NULL, PRIMARY KEY or one aggregate function ({CHOICES})")
    return definition


def _read_delimiter(cursor: Cursor) -> str | None:
    if not cursor.accept_symbol("("):
        return None
    delimiter = cursor.expect(Kind.STRING, "a delimiter in single quotes").text
    cursor.expect_symbol(")")
    return delimiter


def _build(definitions: list[_Definition], key: list[str] | None) -> Schema:
    inline = [definition.name for definition in definitions if definition.key]
    if len(inline) > 1 or (inline and key is not None):
        raise InvalidError("a table has one primary key; name its columns in PRIMARY KEY (...)", columns=inline)
    columns = tuple(
        make_column(position, d.name, d.type, nullable=d.nullable, agg=d.agg, delimiter=d.delimiter)
        for position, d in enumerate(definitions)
    )
    schema = checked(Schema(columns))
    primary_key = tuple(schema.find(name).name for name in key or inline)
    required = tuple(require(column) if column.name in primary_key else column for column in columns)
    return checked(Schema(required, primary_key))
