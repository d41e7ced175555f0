"""Reading a table whose columns change, at any moment and through any handle, beside its oracle."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import pyarrow as pa
from tests.kit.altered_choices import chosen
from tests.kit.altered_node import AlteredNode
from tests.kit.altered_oracle import AlteredOracle, Columns, Rows

from penstock.client.changes.stream import ChangeStream
from penstock.client.cut.cut import Cut
from penstock.client.table import Table
from penstock.errors import OffsetOutOfRangeError, SchemaMismatchError

PATH: Final = "shop.t"
KEYS: Final = 12


@dataclass
class Handle:
    """A handle, and the columns that it writes by."""

    table: Table
    columns: Columns


@dataclass
class Stream:
    """A stream that is open, the columns of its start, and the row of each key as far as it was read."""

    stream: ChangeStream
    columns: Columns
    images: dict[int, dict[str, Any] | None]


class AlteredReads:
    """What is read of a table, and compared."""

    random: Random
    node: AlteredNode
    oracle: AlteredOracle
    handles: list[Handle]
    cuts: list[tuple[str, Rows]]
    streams: list[Stream]

    @property
    def table(self) -> Table:
        """Return a handle that was just opened."""
        return self.node.connection.table(PATH)

    def check(self) -> None:
        """Compare all of the present."""
        assert self.seen(self.table) == self.oracle.shown()

    def seen(self, table: Table, **asked: Any) -> dict[int, dict[str, Any]]:
        """Return what a scan shows, by key."""
        rows = table.scan(**asked).to_arrow().to_pylist()
        found = {row.pop("id"): row for row in rows}
        assert len(found) == len(rows)
        return found

    def _forget_lost(self) -> None:
        """Forget the cuts that compaction left behind."""
        bases = {bucket.bucket: at.base for bucket, at in self.table.offsets().items()}
        kept = []
        for text, rows in self.cuts:
            at = {bucket.bucket: offset for bucket, offset in Cut.from_json(text).items()}
            if all(offset >= bases[bucket] for bucket, offset in at.items()):
                kept.append((text, rows))
        self.cuts = kept

    def cut(self) -> None:
        """Remember this moment."""
        self.cuts.append((self.table.cut().to_json(), deepcopy(self.oracle.rows)))
        self.cuts = self.cuts[-5:]

    def look_back(self) -> None:
        """Read the table as of a moment, by the columns of today, through any handle."""
        if not self.cuts:
            return
        text, rows = self.random.choice(self.cuts)
        table = self.random.choice([self.table, *(handle.table for handle in self.handles)])
        shown = self.oracle.shown(rows)
        assert self.seen(table, as_of=text) == shown
        column = chosen(self.random, self.oracle)
        if column is not None:
            name = column.name
            nulls = self.seen(table, as_of=text, filter=f"{name} IS NULL")
            assert nulls == {key: row for key, row in shown.items() if row[name] is None}
            if pa.types.is_integer(column.type):
                positive = self.seen(table, as_of=text, filter=f"{name} > 7")
                assert positive == {k: row for k, row in shown.items() if row[name] is not None and row[name] > 7}

    def look_up(self) -> None:
        """Look keys up, there or not, through any handle."""
        table = self.random.choice([self.table, *(handle.table for handle in self.handles)])
        keys, shown = self._keys(), self.oracle.shown()
        nothing = dict.fromkeys((column.name for column in self.oracle.columns), None)
        expected = [{"id": key} | shown.get(key, nothing) | {"_found": key in shown} for key in keys]
        assert table.lookup(keys).to_pylist() == expected

    def follow(self) -> None:
        """Fold the changes from a moment on over what the table was then: before-images meet what they replace."""
        if not self.cuts:
            return
        text, rows = self.random.choice(self.cuts)
        state: dict[int, dict[str, Any] | None] = dict(self.oracle.shown(rows))
        for batch in self.table.changes(start=Cut.from_json(text)):
            self._fold(batch, state)
        assert {key: row for key, row in state.items() if row is not None} == self.oracle.shown()

    def _fold(self, batch: pa.RecordBatch, state: dict[int, dict[str, Any] | None]) -> None:
        for row in batch.to_pylist():
            key, kind = row.pop("id"), row["_change_type"]
            image = {name: value for name, value in row.items() if not name.startswith("_")}
            if kind in ("-U", "-D"):
                assert state.get(key) == image, (key, kind, state.get(key), image)
                state[key] = None
            else:
                assert state.get(key) is None
                state[key] = image

    def open_stream(self) -> None:
        """Open a stream from now on, which keeps the columns of its start."""
        cut = self.table.cut()
        stream = self.table.changes(start=cut, follow=True, timeout=0)
        columns = self.oracle.columns
        images: dict[int, dict[str, Any] | None] = dict(self.oracle.shown(columns=columns))
        self.streams.append(Stream(stream, columns, images))
        if len(self.streams) > 3:
            self.streams.pop(0).stream.close()

    def read_streams(self) -> None:
        """Read what is new in the streams that are open; one that needs a dropped column raises."""
        for one in list(self.streams):
            present = {column.id: column for column in self.oracle.columns}
            dropped = any(column.id not in present for column in one.columns)
            wider = any(column.id in present and present[column.id].type != column.type for column in one.columns)
            try:
                for batch in one.stream:
                    self._fold(batch, one.images)
            except SchemaMismatchError as error:
                self._check_ended(error, dropped=dropped, wider=wider)
                self._end(one)
                continue
            except OffsetOutOfRangeError:
                # At its end a stream holds nothing, so what came since may have been compacted away.
                self._end(one)
                continue
            assert not dropped
            state = {key: row for key, row in one.images.items() if row is not None}
            assert state == self.oracle.shown(columns=tuple(replace(present[c.id], name=c.name) for c in one.columns))

    def _end(self, one: Stream) -> None:
        self.streams.remove(one)
        one.stream.close()

    def _keys(self) -> list[int]:
        return self.random.sample(range(KEYS), self.random.randint(1, 4))

    @staticmethod
    def _check_ended(error: SchemaMismatchError, *, dropped: bool, wider: bool) -> None:
        assert dropped or wider, error
        assert dropped or "widened" in error.message, error
