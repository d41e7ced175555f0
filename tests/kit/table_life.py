"""The random life of a whole table, led beside an oracle through the public API.

Each step writes, reads or looks after the table at random; whatever is read must be what the oracle
says. Everything follows from the seed, except for what background threads do in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pat
from tests.kit.node_house import NodeHouse
from tests.kit.random_table import RandomTable, Row
from tests.kit.table_oracle import TableOracle, table_oracle
from tests.kit.table_reads import PATH, TableReads

from penstock.client.table import Table
from penstock.errors import PenstockError
from penstock.model.node.calls import WriteResult
from penstock.model.table.merge_engine import MergeEngine

COLUMNS_ADDED_MAX: Final = 3
_CHANGE_TYPES: Final = ("+I", "+I", "-U", "+U", "-D", "+A")


class TableLife:
    """A table, its oracle, and what happens to both."""

    def __init__(self, random: Random, house: NodeHouse, merge_engine: MergeEngine) -> None:
        self.random = random
        self.house = house
        self.plan = RandomTable(random, merge_engine)
        table = house.connection.create_table(
            PATH,
            self.plan.schema(),
            merge_engine=merge_engine,
            version_column=self.plan.version,
            buckets=self.plan.buckets,
            partitioned_by=self.plan.partitioned_by,
            properties=self._properties(),
        )
        self.oracle: TableOracle = table_oracle(table.info)
        self.handles = [table]
        self.reads = TableReads(random, house, self.oracle)
        self.steps: dict[str, int] = {}
        self._added = 0

    @property
    def table(self) -> Table:
        """Return the newest handle."""
        return self.handles[-1]

    def play(self, steps: int) -> None:
        """Lead the life for so many steps, then look at everything."""
        choices = [step for step, weight in self._weighted().items() for _ in range(weight)]
        for _ in range(steps):
            step = self.random.choice(choices)
            self.steps[step.__name__] = self.steps.get(step.__name__, 0) + 1
            step()
        self.reads.check_everything(self.table)
        self.restart()

    def _weighted(self) -> dict[Callable[[], None], int]:
        steps = {
            self.upsert: 14,
            self.upsert_by_writer: 4,
            self.delete: 4,
            self.clear: 2,
            self.apply_changes: 4,
            self.delete_where: 2,
            self.truncate: 1,
            self.add_column: 1,
            self.look_after: 6,
            self.cut: 8,
            self.look_up: 4,
            self.look_back: 6,
            self.follow: 6,
            self.begin_scan: 4,
            self.resume_scan: 4,
            self.restart: 1,
            self.forget: 1,
        }
        if self.plan.takes_partial:
            steps[self.update] = 6
        if self.plan.partitioned:
            steps[self.drop_partition] = 1
        return steps

    def upsert(self) -> None:
        """Write whole rows by a handle that may be older than some columns."""
        table, columns = self._any_handle()
        rows = self.plan.rows(table.info.schema.names)
        self._write(lambda: self.oracle.upsert(rows, columns), lambda: table.upsert(self._dressed(rows, table)))

    def upsert_by_writer(self) -> None:
        """Write through a pipelined writer, which may cut the rows up in other ways than they came."""
        table, columns = self._any_handle()
        with table.writer(batch_rows=self.random.randint(1, 40)) as writer:
            for _ in range(self.random.randint(1, 4)):
                rows = self.plan.rows(table.info.schema.names)
                if self.random.random() < 0.3:
                    self.oracle.delete(rows)
                    writer.delete(self._keys(rows))
                else:
                    self.oracle.upsert(rows, columns)
                    writer.upsert(self._dressed(rows, table))

    def update(self) -> None:
        """Write some columns."""
        table, _ = self._any_handle()
        some = self.plan.some([name for name in table.info.schema.names if name not in self.plan.key])
        rows = self.plan.rows(some)
        self._write(lambda: self.oracle.upsert(rows, some), lambda: table.upsert(rows, columns=some))

    def delete(self) -> None:
        """Delete by key."""
        rows = self._keys(self.plan.rows(()))
        self._write(lambda: self.oracle.delete(rows), lambda: self.table.delete(rows))

    def clear(self) -> None:
        """Delete columns by key."""
        if not self.plan.takes_partial:
            return
        rows, some = self._keys(self.plan.rows(())), self.plan.some(self.plan.values)
        self._write(lambda: self.oracle.clear(rows, some), lambda: self.table.delete(rows, columns=some))

    def apply_changes(self) -> None:
        """Apply what a changelog may emit."""
        table, columns = self._any_handle()
        rows = self.plan.rows(table.info.schema.names)
        # An aggregate asks for the image before every update, so updates there come as a retraction and an insert.
        choices = _CHANGE_TYPES if self.plan.merge_engine is not MergeEngine.AGGREGATE else ("+I", "+A", "-D")
        kinds = [self.random.choice(choices) for _ in rows]
        if self.plan.merge_engine is MergeEngine.AGGREGATE:
            # It refuses deletes that bring nothing to take back: they look like those of a changelog without images.
            key = table.info.primary_key
            bare = [all(value is None for name, value in row.items() if name not in key) for row in rows]
            kinds = ["+I" if without else kind for kind, without in zip(kinds, bare, strict=True)]
        batch = self._batch(rows, table).append_column("_change_type", pa.array(kinds))
        self._write(lambda: self.oracle.apply(rows, kinds, columns), lambda: table.apply_changes(batch))

    def delete_where(self) -> None:
        """Delete what a filter finds."""
        name, words, matches = self._filter()
        if self.table.info.options.delete_behavior.value != "allow":
            self._write(lambda: 0, lambda: self.table.delete_where(words))
            return
        self._write(lambda: self.oracle.remove(lambda row: matches(row[name])), lambda: self.table.delete_where(words))

    def truncate(self) -> None:
        """Delete everything."""
        self._write(lambda: self.oracle.remove(lambda row: True), self.table.truncate)

    def add_column(self) -> None:
        """Add a column; older handles go on writing."""
        if self._added == COLUMNS_ADDED_MAX:
            return
        name, self._added = f"added{self._added}", self._added + 1
        self.plan.draw_column(name)
        self.handles.append(self.table.add_column(name, self.plan.fields[name], self.plan.folds.get(name)))
        self.oracle.take_up(self.table.info)

    def drop_partition(self) -> None:
        """Drop a partition with its rows; nothing of it is in the changelog."""
        values = [row["part"] for row in self.oracle.snapshot().values()]
        if values:
            value = self.random.choice(values)
            before = self.table.cut()
            self.table.drop_partition({"part": value})
            self.oracle.remove(lambda row: row["part"] == value)
            left = self.table.cut()
            self.reads.forget({bucket: x for bucket, x in before.items() if bucket not in left})

    def look_after(self) -> None:
        """Seal, checkpoint or compact, as background work would."""
        engine, live = self.house.engine, self.house.open_table(self.table.info.table_id)
        if self.random.random() < 0.5:
            engine.reap()
            engine.maintenance.compact_now(live, everything=self.random.random() < 0.5)
            return
        for tablet in list(live.committer.tablets.values()):
            # A bucket is never worked on twice at once.
            with engine.maintenance.attending(tablet.bucket):
                engine.maintenance._seal(live, tablet, active_too=self.random.random() < 0.5)
                if self.random.random() < 0.5:
                    engine.maintenance._checkpoint(live, tablet)

    def cut(self) -> None:
        """Remember this moment."""
        self.reads.remember(self.table)

    def look_up(self) -> None:
        """Look keys up, there or not, and a prefix."""
        self.reads.look_up(self.table, self._keys(self.plan.rows(())))

    def look_back(self) -> None:
        """Read the table as of a moment."""
        self.reads.check_moment(self.table)

    def follow(self) -> None:
        """Fold the changes between two moments over the first."""
        self.reads.check_changes(self.table)

    def begin_scan(self) -> None:
        """Read a part of the table and keep the token."""
        self.reads.begin_scan(self.table, self.plan.some(self.plan.values))

    def resume_scan(self) -> None:
        """Read the rest of what was begun."""
        self.reads.resume_scan()

    def restart(self) -> None:
        """Close and open again."""
        self.house.restart()
        self._reopened()

    def forget(self) -> None:
        """Open again what nobody closed."""
        self.handles.clear()
        self.reads.let_go()
        self.house.forget()
        self._reopened()

    def _reopened(self) -> None:
        self.handles = [self.house.connection.table(PATH)]
        assert list(self.table.info.schema.names) == list(self.plan.fields)
        self.reads.check_everything(self.table)

    def _write(self, tell: Callable[[], int], write: Callable[[], WriteResult]) -> None:
        """Write beside the oracle: the same changes, or the same refusal and none."""
        before = self.table.cut()
        try:
            expected = tell()
        except PenstockError as refusal:
            try:
                write()
            except type(refusal):
                assert self.table.cut() == before
                return
            raise AssertionError(f"the oracle refuses: {refusal}") from refusal
        result = write()
        assert result.changes == expected, (result, expected)
        after = self.table.cut()
        spans = {bucket: (before.get(bucket, bucket.first_offset(x)), x) for bucket, x in after.items()}
        moved = {bucket: (start, end) for bucket, (start, end) in spans.items() if start != end}
        made = {bucket: span for bucket, span in result.offsets.items() if span[0] < span[1]}
        assert made == moved, (result.offsets, moved)

    def _any_handle(self) -> tuple[Table, list[str] | None]:
        """Return a handle, and the columns that it writes if it does not know all."""
        table = self.random.choice(self.handles)
        if len(table.info.schema.names) == len(self.plan.fields):
            return table, None
        return table, [name for name in table.info.schema.names if name not in self.plan.key]

    def _properties(self) -> dict[str, Any]:
        chosen: dict[str, Any] = {}
        if self.plan.merge_engine is MergeEngine.AGGREGATE:
            chosen["aggregate.retract"] = "ignore"
        if self.plan.takes_partial:
            chosen["delete.behavior"] = self.random.choice(("allow", "allow", "ignore"))
        return chosen

    def _keys(self, rows: Sequence[Row]) -> list[Row]:
        return [{name: row[name] for name in self.plan.key} for row in rows]

    def _batch(self, rows: Sequence[Row], table: Table) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(list(rows), schema=table.schema)

    def _dressed(self, rows: Sequence[Row], table: Table) -> Any:
        """Return the rows as one of the kinds of data that a table takes."""
        kind = self.random.randrange(4)
        if kind == 0:
            return list(rows)
        batch = self._batch(rows, table)
        if kind == 1:
            return batch
        if kind == 2:
            return {name: batch.column(name) for name in batch.schema.names}
        middle = self.random.randint(0, len(rows))
        return pa.Table.from_batches([batch.slice(0, middle), batch.slice(middle)])

    def _filter(self) -> tuple[str, str, Callable[[Any], bool]]:
        """Return a column, a filter over it in words, and the same in Python."""
        name = self.random.choice(list(self.plan.fields))
        kind = self.plan.fields[name]
        values = [row[name] for row in self.oracle.snapshot().values() if row[name] is not None]
        if pat.is_integer(kind) and values:
            bound = self.random.choice(values)
            return name, f"{name} > {bound}", lambda value: value is not None and value > bound
        return name, f"{name} IS NULL", lambda value: value is None
