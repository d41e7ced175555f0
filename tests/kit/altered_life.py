"""The random life of a table whose columns change under writers and readers of before, beside its oracle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pyarrow as pa
from tests.kit.altered_choices import KINDS, added, dropped, renamed, value_of, widened
from tests.kit.altered_node import AlteredNode
from tests.kit.altered_oracle import AlteredOracle, Change, OracleColumn, Rows, begin_row, delete
from tests.kit.altered_reads import PATH, AlteredReads, Handle

from penstock.client.hold.owner import Owner
from penstock.errors import LockedError, SchemaMismatchError
from penstock.model.table.merge_engine import MergeEngineLike


class AlteredLife(AlteredReads):
    """A table, its oracle, and what happens to both."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.node = AlteredNode()
        self.engine: MergeEngineLike = random.choice(("last_row", "last_row", "last_row", "first_row", "versioned"))
        self.node.connection.create_database("shop")
        kinds = [random.choice(KINDS)[0] for _ in range(3)]
        names = "abc"
        columns = [OracleColumn(i + 1, names[i], kind) for i, kind in enumerate(kinds)]
        if self.engine == "versioned":
            columns[0] = OracleColumn(1, "ver", pa.int32())
        schema = pa.schema([("id", pa.int64()), *((column.name, column.type) for column in columns)])
        table = self.node.connection.create_table(
            PATH,
            schema,
            primary_key=["id"],
            buckets=random.choice((1, 2)),
            merge_engine=self.engine,
            version_column="ver" if self.engine == "versioned" else None,
            properties={"column-lock.enabled": True},
        )
        self.oracle = AlteredOracle(tuple(columns), ids=4)
        self.handles = [Handle(table, self.oracle.columns)]
        self.cuts = []
        self.streams = []
        self.owner: Owner | None = None
        self.held: frozenset[int] | None = None
        self.epoch = 0
        self.counts: dict[str, int] = {}
        self._names = 0

    @property
    def partial(self) -> bool:
        """Tell whether some columns may be written."""
        return self.engine == "last_row"

    def play(self, steps: int) -> None:
        """Lead the life for so many steps."""
        weights: dict[Callable[[], None], int] = {
            self.upsert: 16,
            self.update: 8,
            self.delete: 4,
            self.alter: 7,
            self.open_handle: 3,
            self.look_after: 6,
            self.cut: 4,
            self.look_back: 5,
            self.look_up: 4,
            self.follow: 4,
            self.open_stream: 2,
            self.read_streams: 4,
            self.begin: 3,
            self.settle: 4,
            self.crash: 2,
            self.restart: 1,
        }
        choices = [step for step, weight in weights.items() for _ in range(weight)]
        for _ in range(steps):
            step = self.random.choice(choices)
            self.counts[step.__name__] = self.counts.get(step.__name__, 0) + 1
            step()
            if self.random.random() < 0.4:
                self.check()
        self.settle()
        self.check()
        self.crash()
        self.check()
        self.node.close()

    def upsert(self) -> None:
        """Write whole rows by any handle, now and then without columns that were added."""
        handle = self.random.choice(self.handles)
        left_out = {c.name for c in handle.columns if c.added and self.random.random() < 0.3}
        self._write(handle, [c for c in handle.columns if c.name not in left_out], None)

    def update(self) -> None:
        """Write some columns by any handle."""
        handle = self.random.choice(self.handles)
        if self.partial and handle.columns:
            some = self.random.sample(handle.columns, self.random.randint(1, len(handle.columns)))
            self._write(handle, some, [column.name for column in some])

    def delete(self) -> None:
        """Delete keys by any handle."""
        if self.engine != "last_row":
            return
        handle, keys = self.random.choice(self.handles), self._keys()
        if self.owner is not None:
            return
        handle.table.delete(keys)
        for key in keys:
            self.oracle.change(delete(key))

    def _write(self, handle: Handle, columns: list[OracleColumn], named: list[str] | None) -> None:
        rows = [{"id": key} | {c.name: value_of(self.random, c.type) for c in columns} for key in self._keys()]
        own = self.owner is not None and self.random.random() < 0.5
        if own and self.held is not None and not {c.id for c in columns} <= self.held:
            return
        gone = next((c.name for c in columns if not self.oracle.has(c.id)), None)
        blocked = self.owner is not None and not own and (self.held is None or bool(self._touched(columns) & self.held))
        if named is None and not columns and self.owner is not None:
            return
        try:
            handle.table.upsert(rows, columns=named, owner=self.owner if own else None)
        except LockedError:
            assert blocked
            return
        except SchemaMismatchError as refused:
            self._check_refused(refused, {c.name for c in columns if not self.oracle.has(c.id)})
            return
        assert gone is None, (gone, columns)
        assert not blocked
        for row in rows:
            values = {c.id: row[c.name] for c in columns}
            self.oracle.change(self._merged(row["id"], values), own=own)

    @staticmethod
    def _check_refused(refused: SchemaMismatchError, gone: set[str]) -> None:
        assert gone, refused
        assert "dropped" in refused.message, refused
        assert refused.facts["column"] in gone

    def _touched(self, columns: list[OracleColumn]) -> frozenset[int]:
        return frozenset(column.id for column in columns)

    def _merged(self, key: int, values: dict[int, Any]) -> Change:
        columns = self.oracle.columns
        write = begin_row(key, values, columns)

        def change(rows: Rows) -> None:
            there = key in rows
            if self.engine == "first_row" and there:
                return
            if self.engine == "versioned" and there:
                old, new = rows[key].get(1), values.get(1)
                # A null version loses to any row.
                if new is None or (old is not None and new < old):
                    return
            write(rows)

        return change

    def alter(self) -> None:
        """Alter the table by a fresh handle or through an old one; now and then the node dies in the middle."""
        kind = self.random.choice((added, renamed, dropped, widened))
        planned = kind(self.random, self.oracle)
        if planned is None:
            return
        do, columns, touched = planned
        handle = self.random.choice(self.handles)
        through = handle.table if self.random.random() < 0.5 else self.table
        locked = self.owner is not None and touched is not None and (self.held is None or touched in self.held)
        try:
            moments = self.node.around_alteration(lambda: do(through))
        except LockedError:
            assert locked
            return
        assert not locked
        assert len(moments) == 2
        if self.random.random() < 0.15:
            before = self.random.random() < 0.5
            if not before:
                self.oracle.alter(columns)
            self._crash(moments[0] if before else moments[1])
            return
        self.oracle.alter(columns)
        if through is handle.table:
            # What is altered through a handle, it takes up.
            handle.columns = self.oracle.columns

    def open_handle(self) -> None:
        """Open another handle, or let go of the oldest."""
        self.handles.append(Handle(self.table, self.oracle.columns))
        if len(self.handles) > 4:
            del self.handles[self.random.randrange(len(self.handles))]

    def look_after(self) -> None:
        """Seal, checkpoint or compact, as background work would."""
        engine = self.node.engine
        live = self.node.table(self.handles[0].table.info.table_id)
        if self.random.random() < 0.5:
            engine.maintenance.compact_now(live, everything=self.random.random() < 0.5)
            self._forget_lost()
            return
        for tablet in list(live.committer.tablets.values()):
            with engine.maintenance.attending(tablet.bucket):
                engine.maintenance._seal(live, tablet, active_too=self.random.random() < 0.5)
                if self.random.random() < 0.5:
                    engine.maintenance._checkpoint(live, tablet)

    def begin(self) -> None:
        """Become an owner of some columns, or of all, and begin an epoch."""
        if self.owner is not None or not self.partial:
            return
        some = None
        if self.random.random() < 0.6:
            some = self.random.sample(self.oracle.columns, self.random.randint(1, len(self.oracle.columns)))
        self._acquire(some)
        self.oracle.begin()

    def _acquire(self, some: list[OracleColumn] | None) -> Owner:
        names = None if some is None else [column.name for column in some]
        owner = self.owner = self.table.acquire_owner("job", columns=names, ttl="1h")
        self.held = None if some is None else frozenset(column.id for column in some)
        self.epoch += 1
        owner.begin(epoch=self.epoch)
        return owner

    def settle(self) -> None:
        """Commit the epoch or undo it, and let go."""
        if self.owner is None:
            return
        undo = self.random.random() < 0.5
        if undo:
            self.owner.undo()
        else:
            self.owner.commit(epoch=self.epoch)
        self.owner.release()
        self.owner, self.held = None, None
        self.oracle.settle(undo=undo)

    def restart(self) -> None:
        """Close in order, and open again."""
        self.settle()
        self._let_go()
        self.node.restart()
        self._reopened()

    def crash(self) -> None:
        """Die now, and be opened again."""
        self._crash(None)

    def _crash(self, moment: Any) -> None:
        held = self.held
        owned, self.owner = self.owner, None
        self._let_go()
        self.node.crash(self.random, moment)
        if owned is not None:
            some = None if held is None else [c for c in self.oracle.columns if c.id in held]
            # To begin again undoes what the epoch had done.
            again = self._acquire(some)
            self.oracle.settle(undo=True)
            again.undo()
            again.release()
            self.owner, self.held = None, None
        self._reopened()

    def _let_go(self) -> None:
        for one in self.streams:
            with suppress(Exception):
                one.stream.close()
        self.streams.clear()
        self.handles.clear()

    def _reopened(self) -> None:
        self.handles = [Handle(self.table, self.oracle.columns)]
        self._forget_lost()
        self.check()
