"""What a table holds whose columns come, go and change: rows by column id, and what today's columns show of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

Stored = dict[int, Any]
Rows = dict[int, Stored]


@dataclass(frozen=True)
class OracleColumn:
    """A column outside the key."""

    id: int
    name: str
    type: pa.DataType
    default: Any = None
    added: bool = False


Columns = tuple[OracleColumn, ...]
Change = Callable[[Rows], None]


@dataclass
class AlteredOracle:
    """The rows and columns of a table. While an epoch is open, changes are noted with whether they are its own."""

    columns: Columns
    rows: Rows = field(default_factory=dict)
    ids: int = 0
    begun: Rows | None = None
    noted: list[tuple[bool, Change]] = field(default_factory=list)

    def column(self, name: str) -> OracleColumn:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)

    def has(self, column_id: int) -> bool:
        """Tell whether the table has a column."""
        return any(column.id == column_id for column in self.columns)

    def alter(self, columns: Sequence[OracleColumn]) -> None:
        """Have other columns from now on."""
        self.columns = tuple(columns)

    def change(self, change: Change, *, own: bool = False) -> None:
        """Change rows; `own`: in the open epoch."""
        change(self.rows)
        if self.begun is not None:
            self.noted.append((own, change))

    def begin(self) -> None:
        """Open an epoch."""
        self.begun, self.noted = deepcopy(self.rows), []

    def settle(self, *, undo: bool) -> None:
        """Close the epoch; undone, the table is as if the epoch's own changes had never been made."""
        if undo and self.begun is not None:
            self.rows = self.begun
            for own, change in self.noted:
                if not own:
                    change(self.rows)
        self.begun, self.noted = None, []

    def shown(self, rows: Rows | None = None, columns: Columns | None = None) -> dict[int, dict[str, Any]]:
        """Return rows as these columns show them, or as those of today do."""
        columns = self.columns if columns is None else columns
        rows = self.rows if rows is None else rows
        return {
            key: {column.name: row.get(column.id, column.default) for column in columns} for key, row in rows.items()
        }


def upsert(key: int, values: Stored) -> Change:
    """Return the change that writes some columns of a row, and makes it if it is not there."""

    def change(rows: Rows) -> None:
        rows[key] = rows.get(key, {}) | values

    return change


def begin_row(key: int, values: Stored, columns: Columns) -> Change:
    """Return the change that writes some columns; of a new row the others have their defaults from then on."""

    def change(rows: Rows) -> None:
        fresh = {column.id: column.default for column in columns}
        rows[key] = rows.get(key, fresh) | values

    return change


def delete(key: int) -> Change:
    """Return the change that removes a row."""

    def change(rows: Rows) -> None:
        rows.pop(key, None)

    return change


def widened(column: OracleColumn, kind: pa.DataType) -> OracleColumn:
    """Return a column of a wider type."""
    return replace(column, type=kind)
