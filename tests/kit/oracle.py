"""The oracle: what a table must answer, as a dict and a list.

The list has the changes of one bucket (or of a whole table that has one bucket); a change's place in
it, counted from `start`, is its offset. So the oracle knows every snapshot, every before-image and every lifetime, in
plain Python and without a thought for speed. Values are compared as Python compares them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.model.place.change import NO_OFFSET, OFFSET_MAX, Op
from penstock.model.table.merge_engine import MergeEngine

Row = Mapping[str, Any]
Key = tuple[Any, ...]


class OracleChange(NamedTuple):
    """One change: the row before it, at offset `prev`, and the row after it."""

    op: Op
    key: Key
    prev: int
    before: Row | None
    after: Row | None


class Oracle:
    """A primary-key table in memory. Offers the merge engines that keep one of the rows written."""

    def __init__(
        self,
        columns: Sequence[str],
        key: Sequence[str],
        *,
        merge_engine: MergeEngine = MergeEngine.LAST_ROW,
        version: str | None = None,
        start: int = 0,
    ) -> None:
        assert merge_engine is not MergeEngine.AGGREGATE
        assert (version is not None) == (merge_engine is MergeEngine.VERSIONED)
        self.columns = list(columns)
        self.key = tuple(key)
        self.start = start
        self.changes: list[OracleChange] = []
        self._merge_engine = merge_engine
        self._version = version
        self._live: dict[Key, int] = {}
        self._offsets: dict[Key, list[int]] = {}

    @property
    def end(self) -> int:
        """Return the offset after the last change."""
        return self.start + len(self.changes)

    def change(self, offset: int) -> OracleChange:
        """Return the change at an offset."""
        return self.changes[offset - self.start]

    def add_column(self, name: str) -> None:
        """Have one more column, null in every row written before."""
        self.columns.append(name)

    def upsert(self, rows: Iterable[Row], columns: Sequence[str] | None = None) -> None:
        """Write rows in order; with `columns` these only, the others keep their values."""
        for row in rows:
            self._upsert(row, columns)

    def delete(self, rows: Iterable[Row]) -> None:
        """Delete the keys of these rows."""
        for row in rows:
            key = self._key_of(row)
            if key in self._live:
                self._change(key, None)

    def apply(self, rows: Iterable[tuple[Row, bool]], columns: Sequence[str] | None = None) -> None:
        """Write, or delete where the flag is set, in order."""
        for row, deletes in rows:
            if deletes:
                self.delete([row])
            else:
                self._upsert(row, columns)

    def clear(self, rows: Iterable[Row], columns: Sequence[str]) -> None:
        """Null columns of the keys of these rows; a row in which nothing is left goes. A key counts once."""
        for key in dict.fromkeys(self._key_of(row) for row in rows):
            before = self.get(key)
            if before is None:
                continue
            after = {name: None if name in columns else value for name, value in before.items()}
            left = any(after[name] is not None for name in self.columns if name not in self.key)
            if not left or after != before:
                self._change(key, after if left else None)

    def get(self, key: Key) -> Row | None:
        """Return the row of a key now."""
        offset = self._live.get(key)
        return None if offset is None else self._whole(self.change(offset).after)

    def snapshot(self, x: int | None = None) -> dict[Key, Row]:
        """Return the rows as of X: of the changes before it the last one of each key, unless that deletes."""
        x = self.end if x is None else x
        found = {}
        for key, offsets in self._offsets.items():
            place = bisect_left(offsets, x)
            after = self.change(offsets[place - 1]).after if place else None
            if after is not None:
                found[key] = self._whole(after)
        return found

    def ends(self) -> list[int]:
        """Return the end of each change's row: where it was replaced, its own offset for a delete."""
        ends = [at if change.op is Op.DELETE else OFFSET_MAX for at, change in enumerate(self.changes, self.start)]
        for at, change in enumerate(self.changes, self.start):
            if change.prev != NO_OFFSET:
                ends[change.prev - self.start] = at
        return ends

    def cut(self, end: int) -> None:
        """Forget the changes from `end` on: they never happened."""
        kept = end - self.start
        for change in reversed(self.changes[kept:]):
            self._offsets[change.key].pop()
            self._live.pop(change.key, None)
            if change.prev != NO_OFFSET:
                self._live[change.key] = change.prev
        del self.changes[kept:]

    def _upsert(self, row: Row, columns: Sequence[str] | None) -> None:
        key = self._key_of(row)
        before = self.get(key)
        after = {name: row.get(name) for name in self.columns}
        if columns is not None:
            kept = before or {}
            after |= {name: kept.get(name) for name in self.columns if name not in (*columns, *self.key)}
        if before is None or self._wins(before, after, partial=columns is not None):
            self._change(key, after)

    def _wins(self, before: Row, after: Row, *, partial: bool) -> bool:
        if self._merge_engine is MergeEngine.FIRST_ROW:
            return False
        if self._version is None:
            return not partial or after != before
        old, new = before[self._version], after[self._version]
        return new is not None and (old is None or new >= old)

    def _change(self, key: Key, after: Row | None) -> None:
        prev = self._live.pop(key, NO_OFFSET)
        before = None if prev == NO_OFFSET else self.change(prev).after
        op = Op.DELETE if after is None else Op.INSERT if before is None else Op.UPDATE
        if after is not None:
            self._live[key] = self.end
        self._offsets.setdefault(key, []).append(self.end)
        self.changes.append(OracleChange(op, key, prev, before, after))

    def _key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)

    def _whole(self, row: Row | None) -> Row:
        assert row is not None
        return {name: row.get(name) for name in self.columns}
