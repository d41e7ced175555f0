"""Statements that are no SELECT: those about tables are answered from the catalog, others name their command."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.errors import TableNotFoundError, UnsupportedError
from penstock.model.schema.type_words import format_type

if TYPE_CHECKING:
    from penstock.client.connection import Connection

_NAME: Final = r"""["`]?(?P<name>[\w.-]+)["`]?"""
_COLUMNS: Final = pa.schema(
    [
        ("column_name", pa.string()),
        ("column_type", pa.string()),
        ("null", pa.string()),
        ("key", pa.string()),
        ("aggregate", pa.string()),
    ]
)
# By the first word; the longer ones first.
_COMMANDS: Final = (
    ("insert", "write rows with `penstock put TABLE FILE`"),
    ("merge", "write rows with `penstock put TABLE FILE`"),
    ("copy", "write rows with `penstock put TABLE FILE`, read them with `penstock scan TABLE -o csv`"),
    ("update", "write the new values with `penstock put TABLE FILE --columns A,B`"),
    ("delete", "say `penstock delete TABLE --where FILTER`"),
    ("truncate", "say `penstock truncate TABLE`"),
    ("create database", "say `penstock database create NAME`"),
    ("create schema", "say `penstock database create NAME`"),
    ("create", "say `penstock table create TABLE DDL`"),
    ("drop database", "say `penstock database drop NAME`"),
    ("drop schema", "say `penstock database drop NAME`"),
    ("drop", "say `penstock table drop TABLE`"),
    ("alter", "say `penstock table alter`"),
    ("use", "name tables as database.table"),
    ("set", "nothing can be set in a query"),
    ("begin", "a query has one cut of its tables already"),
    ("commit", "a query has one cut of its tables already"),
    ("rollback", "a query has one cut of its tables already"),
    ("attach", "say which server or directory with --url"),
    ("install", "extensions are not loaded"),
    ("load", "extensions are not loaded"),
    ("pragma", "nothing can be set in a query"),
)


def answer_statement(connection: Connection, text: str) -> pa.Table | None:
    """Return the answer to a statement about tables, None if it may be a SELECT.

    Raises:
        UnsupportedError: it is another statement; says which command does that.
        TableNotFoundError: it describes a table that is not there.
    """
    words = " ".join(re.sub(r"--[^\n]*", " ", text).split()).rstrip("; ")
    for pattern, answer in _ANSWERS:
        found = re.fullmatch(pattern, words, re.IGNORECASE)
        if found is not None:
            return answer(connection, found.groupdict().get("name"))
    lowered = words.lower()
    for verb, instead in _COMMANDS:
        if re.match(rf"{verb}\b", lowered):
            raise UnsupportedError(f"sql takes one SELECT; {instead}", query=text.strip()[:80])
    return None


def _databases(connection: Connection, _name: str | None) -> pa.Table:
    return pa.table({"database": pa.array(connection.list_databases(), pa.string())})


def _tables(connection: Connection, name: str | None) -> pa.Table:
    databases = connection.list_databases() if name is None else [name]
    found = [(database, table) for database in databases for table in connection.list_tables(database)]
    return pa.table(
        {
            "database": pa.array([database for database, _ in found], pa.string()),
            "table": pa.array([table for _, table in found], pa.string()),
        }
    )


def _described(connection: Connection, name: str | None) -> pa.Table | None:
    assert name is not None, "the pattern has a name"
    if name.lower() == "select":
        return None
    try:
        info = connection.table(name).info
    except TableNotFoundError as error:
        error.add_note('`penstock sql "SHOW TABLES"` lists them')
        raise
    rows = [
        {
            "column_name": column.name,
            "column_type": format_type(column.type),
            "null": "YES" if column.nullable else "NO",
            "key": "PRI" if column.name in info.primary_key else None,
            "aggregate": None if column.agg is None else column.agg.value,
        }
        for column in info.schema.columns
    ]
    return pa.Table.from_pylist(rows, schema=_COLUMNS)


_ANSWERS: Final[tuple[tuple[str, Callable[[Connection, str | None], pa.Table | None]], ...]] = (
    (r"show (all )?tables", _tables),
    (rf"show tables (from|in) {_NAME}", _tables),
    (r"show (databases|schemas)", _databases),
    (rf"(describe|desc|show columns (from|in)|show) {_NAME}", _described),
    (rf"describe table {_NAME}", _described),
)
