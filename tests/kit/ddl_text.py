"""A schema as the text that makes it."""

from __future__ import annotations

from penstock.model.schema.aggregate import DEFAULT_DELIMITER, DELIMITER
from penstock.model.schema.schema import Column, Schema
from penstock.model.schema.type_words import format_name, format_type
from penstock.model.words.tokens import quote_string


def format_ddl(schema: Schema) -> str:
    """Return a text that `parse_ddl` reads back as the same columns and key."""
    parts = [_format_column(column, column.name in schema.primary_key) for column in schema.columns]
    if schema.primary_key:
        parts.append(f"PRIMARY KEY ({', '.join(format_name(name) for name in schema.primary_key)})")
    return ", ".join(parts)


def _format_column(column: Column, key: bool) -> str:
    words = [format_name(column.name), format_type(column.type)]
    if not column.nullable and not key:
        words.append("NOT NULL")
    if column.agg is not None:
        delimiter = column.agg_params.get(DELIMITER, DEFAULT_DELIMITER)
        argument = "" if delimiter == DEFAULT_DELIMITER else f"({quote_string(delimiter)})"
        words.append(column.agg.upper() + argument)
    return " ".join(words)
