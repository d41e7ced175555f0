"""What a SELECT reads, from DuckDB's own parse tree: which tables, and which of their columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from penstock.errors import InvalidError
from penstock.model.words.names import DEFAULT_DATABASE, TablePath

# Where columns are read that the text does not name.
_ALL_COLUMNS: Final = frozenset(("STAR", "PIVOT", "NATURAL", "SHOW_REF"))
_THEIRS: Final = frozenset(("information_schema", "pg_catalog", "main", "temp", "system"))


class TableName(NamedTuple):
    """A table as a query names it."""

    database: str | None
    table: str

    @property
    def path(self) -> str:
        """Return the table's path."""
        return f"{self.database or DEFAULT_DATABASE}.{self.table}"

    @property
    def quoted(self) -> str:
        """Return the name as SQL reads it."""
        return ".".join(f'"{part}"' for part in self if part is not None)


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT, and what it reads."""

    text: str
    tables: tuple[TableName, ...]
    named: frozenset[str]
    every_column: bool

    @classmethod
    def parse(cls, database: Any, text: str) -> Query:
        """Read a query with DuckDB's parser.

        Raises:
            InvalidError: it is no SQL, or not one SELECT.
        """
        tree = json.loads(database.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchone()[0])
        database.complete()
        if tree["error"]:
            if tree["error_type"] == "not implemented":
                raise InvalidError("sql takes one SELECT; rows are written with `penstock put`", query=text[:80])
            raise InvalidError(f"duckdb cannot read the query: {tree['error_message']}")
        if len(tree["statements"]) != 1:
            raise InvalidError("sql takes one SELECT", found=len(tree["statements"]))
        nodes = list(_nodes(tree))
        tables = _tables(nodes)
        # A table's own name or alias as a column is its whole row.
        rows = {name.table.lower() for name in tables}
        rows |= {str(node.get("alias", "")).lower() for node in nodes if node.get("type") == "BASE_TABLE"}
        last_names = {str(node["column_names"][-1]).lower() for node in nodes if node.get("column_names")}
        every = bool(rows & last_names) or any(_ALL_COLUMNS & {n.get("type"), n.get("ref_type")} for n in nodes)
        return cls(text, tables, frozenset(text.lower() for text in _texts(tree)), every)

    def columns_of(self, names: Sequence[str]) -> list[str]:
        """Return those of a table's columns that the query may read."""
        return [name for name in names if self.every_column or name.lower() in self.named]


def _tables(nodes: Sequence[dict[str, Any]]) -> tuple[TableName, ...]:
    defined = {entry["key"].lower() for node in nodes for entry in node.get("cte_map", {}).get("map", ())}
    found: dict[TableName, None] = {}
    for node in nodes:
        if node.get("type") not in ("BASE_TABLE", "SHOW_REF") or not node.get("table_name"):
            continue
        name = TableName(node["schema_name"] or None, node["table_name"])
        if name.database is None and name.table.lower() in defined:
            continue
        if name.database not in _THEIRS and _is_ours(name):
            found[name] = None
    return tuple(found)


def _is_ours(name: TableName) -> bool:
    # What no table of ours can be called, such as a file's name, is left to DuckDB.
    try:
        TablePath.parse(TablePath(name.database or DEFAULT_DATABASE, name.table))
    except InvalidError:
        return False
    return True


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for inner in tree:
            yield from _nodes(inner)


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict | list):
        for inner in tree.values() if isinstance(tree, dict) else tree:
            yield from _texts(inner)
