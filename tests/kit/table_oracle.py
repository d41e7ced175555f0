"""What a whole table must answer: the oracles of its merge engines, with names for moments.

A moment is an integer; the snapshot of every moment that was marked stays known. Writes return how
many changes they make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tests.kit.aggregate_oracle import AggregateOracle, same
from tests.kit.oracle import Oracle, Row

from penstock.model.table.merge_engine import DeleteBehavior, MergeEngine
from penstock.model.table.table import TableInfo

Key = tuple[Any, ...]
Snapshot = dict[Key, Row]
DELETING = ("-U", "-D")


class TableOracle(Protocol):
    """A table in memory."""

    def upsert(self, rows: Sequence[Row], columns: Sequence[str] | None) -> int:
        """Write rows, or only some of their columns."""

    def delete(self, rows: Sequence[Row]) -> int:
        """Delete by key, if the table heeds deletes."""

    def clear(self, rows: Sequence[Row], columns: Sequence[str]) -> int:
        """Null columns by key, if the table heeds deletes."""

    def apply(self, rows: Sequence[Row], kinds: Sequence[str], columns: Sequence[str] | None) -> int:
        """Apply rows with their change types."""

    def remove(self, matches: Callable[[Row], bool]) -> int:
        """Delete the rows that match, whatever the table does with deletes."""

    def take_up(self, info: TableInfo) -> None:
        """Have the columns of this table from now on."""

    def mark(self) -> int:
        """Return the present moment."""

    def snapshot(self, moment: int | None = None) -> Snapshot:
        """Return the rows at a moment that was marked, or now."""


def table_oracle(info: TableInfo) -> TableOracle:
    """Return the oracle of a table that is empty."""
    return FoldingOracle(info) if info.merge_engine is MergeEngine.AGGREGATE else ChoosingOracle(info)


class ChoosingOracle:
    """A table whose merge engine keeps one of the rows written."""

    def __init__(self, info: TableInfo) -> None:
        assert info.merge_engine is not None
        self._info = info
        self._oracle = Oracle(
            info.schema.names, info.primary_key, merge_engine=info.merge_engine, version=info.version_column
        )

    def upsert(self, rows: Sequence[Row], columns: Sequence[str] | None) -> int:
        """Write rows, or only some of their columns."""
        return self._counted(lambda: self._oracle.upsert(rows, columns))

    def delete(self, rows: Sequence[Row]) -> int:
        """Delete by key, if the table heeds deletes."""
        return self._counted(lambda: self._oracle.delete(rows)) if _heeds_deletes(self._info) else 0

    def clear(self, rows: Sequence[Row], columns: Sequence[str]) -> int:
        """Null columns by key, if the table heeds deletes."""
        return self._counted(lambda: self._oracle.clear(rows, columns)) if _heeds_deletes(self._info) else 0

    def apply(self, rows: Sequence[Row], kinds: Sequence[str], columns: Sequence[str] | None) -> int:
        """Apply rows with their change types; an image before an update says nothing new."""
        heeded = [
            (row, kind == "-D")
            for row, kind in zip(rows, kinds, strict=True)
            if kind != "-U" and (kind != "-D" or _heeds_deletes(self._info))
        ]
        return self._counted(lambda: self._oracle.apply(heeded, columns))

    def remove(self, matches: Callable[[Row], bool]) -> int:
        """Delete the rows that match, whatever the table does with deletes."""
        found = [row for row in self.snapshot().values() if matches(row)]
        return self._counted(lambda: self._oracle.delete(found))

    def take_up(self, info: TableInfo) -> None:
        """Have the columns of this table from now on."""
        for name in info.schema.names[len(self._info.schema.names) :]:
            self._oracle.add_column(name)
        self._info = info

    def mark(self) -> int:
        """Return the present moment."""
        return self._oracle.end

    def snapshot(self, moment: int | None = None) -> Snapshot:
        """Return the rows at a moment that was marked, or now."""
        return self._oracle.snapshot(moment)

    def _counted(self, write: Callable[[], None]) -> int:
        before = self._oracle.end
        write()
        return self._oracle.end - before


class FoldingOracle:
    """An aggregating table; it keeps a copy of every moment that is marked."""

    def __init__(self, info: TableInfo) -> None:
        self._info = info
        self._oracle = AggregateOracle(info.schema, info.options)
        self._moments: list[Snapshot] = []

    def upsert(self, rows: Sequence[Row], columns: Sequence[str] | None) -> int:
        """Fold rows in, or only some of their columns."""
        return self._oracle.write(rows, columns)[0]

    def delete(self, rows: Sequence[Row]) -> int:
        """Delete by key, if the table heeds deletes."""
        return self._counted(lambda: self._oracle.delete(rows)) if _heeds_deletes(self._info) else 0

    def clear(self, rows: Sequence[Row], columns: Sequence[str]) -> int:
        """Null columns by key, if the table heeds deletes."""
        return self._counted(lambda: self._oracle.clear(rows, columns)) if _heeds_deletes(self._info) else 0

    def apply(self, rows: Sequence[Row], kinds: Sequence[str], columns: Sequence[str] | None) -> int:
        """Fold rows in, or take them back, by their change types."""
        return self._oracle.write(rows, columns, retracts=[kind in DELETING for kind in kinds])[0]

    def remove(self, matches: Callable[[Row], bool]) -> int:
        """Delete the rows that match, whatever the table does with deletes."""
        found = [row for row in self.snapshot().values() if matches(row)]
        return self._counted(lambda: self._oracle.delete(found))

    def take_up(self, info: TableInfo) -> None:
        """Have the columns of this table from now on."""
        rows, self._info = self._oracle.rows, info
        self._oracle = AggregateOracle(info.schema, info.options)
        nothing = dict.fromkeys(column.name for column in info.schema.value_columns)
        self._oracle.rows = {key: nothing | row for key, row in rows.items()}

    def mark(self) -> int:
        """Return the present moment."""
        self._moments.append(dict(self._oracle.rows))
        return len(self._moments) - 1

    def snapshot(self, moment: int | None = None) -> Snapshot:
        """Return the rows at a moment that was marked, or now."""
        rows = self._oracle.rows if moment is None else self._moments[moment]
        names = self._info.schema.names
        keyed = {key: dict(zip(self._info.primary_key, key, strict=True)) | dict(row) for key, row in rows.items()}
        return {key: {name: row.get(name) for name in names} for key, row in keyed.items()}

    def _counted(self, write: Callable[[], None]) -> int:
        before = dict(self._oracle.rows)
        write()
        after = self._oracle.rows
        return sum(not same(before.get(key), after.get(key)) for key in before.keys() | after.keys())


def _heeds_deletes(info: TableInfo) -> bool:
    return info.options.delete_behavior is DeleteBehavior.ALLOW
