"""A table of several partitions and buckets, calls that write all of them, and a disk that may fail at any moment.

What the rows are after each step follows from the step alone; so after a crash, or an error, the table has the rows
before the step or those after it, and nothing between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

import pyarrow as pa
from tests.kit.memory_key_index import MemoryKeyIndex

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.catalog.terms import Terms
from penstock.engine.commit.sync_pool import SyncPool
from penstock.engine.home.storage import Storage
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.settings import Settings
from penstock.engine.table.open_table import OpenTable
from penstock.errors import BucketFailedError, ClosedError, PenstockError
from penstock.model.node.calls import Operation, WriteCall
from penstock.model.node.principal import LOCAL
from penstock.model.table.spec import make_spec
from penstock.tablet.settings import FsyncMode
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.sealing import seal
from penstock.testing.faulty_disk import FaultyDisk
from penstock.testing.manual_clock import ManualClock

PARTITIONS: Final = 3
SLOTS: Final = 7
DDL: Final = "p INT, slot INT, v BIGINT, PRIMARY KEY (p, slot)"

Rows = dict[tuple[int, int], int]
Step = Callable[[], None]


class GroupedLife:
    """One such table, and its steps. `rows` is what it shows; `possible` is what it may show instead.

    `in_doubt` is what it may show instead once it is opened again.
    """

    def __init__(self, *, buckets: int = 2, fsync: FsyncMode = FsyncMode.ALWAYS) -> None:
        self.disk = FaultyDisk()
        self.index = MemoryKeyIndex(chunk_keys=3)
        self.rows: Rows = {}
        self.possible: list[Rows] = []
        self.in_doubt: list[Rows] = []
        self._metadata = MemoryMetadataStore()
        self._clock = ManualClock()
        self._settings = replace(Settings(), segment_bytes=4096, fsync=fsync)
        self._calls = 0
        catalog = Catalog(self._metadata, self._clock)
        spec = make_spec(DDL, partitioned_by=["p"], buckets=buckets)
        self._table_id = catalog.create_table("default.t", spec, creator=LOCAL).table_id
        self.open()

    def open(self) -> None:
        """Open the table on what the disk has."""
        self._syncs = SyncPool()
        self._catalog = Catalog(self._metadata, self._clock)
        self.table = OpenTable(
            self._catalog.table_by_id(self._table_id),
            self._catalog,
            Storage(self.disk, self.index, self._settings).open_tablets,
            terms=Terms(self._metadata),
            clock=self._clock,
            syncs=self._syncs,
        )

    def close(self) -> None:
        """End the threads, without finishing anything."""
        self.table.committer.close(ClosedError("the life is over"))
        self._syncs.close()

    def crash(self, seed: int, *, power_loss: bool) -> None:
        """Let the process die now; `open` finds what is left."""
        self.close()
        self.disk = self.disk.after_power_loss(seed) if power_loss else self.disk.after_kill()
        self.index = self.index.after_crash(seed)
        self.possible += self.in_doubt
        self.in_doubt = []

    def steps(self) -> list[Step]:
        """Return a life: calls over all buckets and over some, and all that moves files between them."""
        calls = [self.upsert, self.upsert_some, self.delete]
        return [
            *calls,
            self.roll,
            *calls,
            self.seal,
            self.upsert,
            self.checkpoint,
            *calls,
            self.compact,
            self.upsert,
            self.drop,
            *calls,
            self.upsert,
            self.seal,
            self.upsert_some,
        ]

    def attempt(self, step: Step) -> PenstockError | OSError | None:
        """Make a step that the disk may refuse; return its error, after which it was made in doubt or not at all."""
        try:
            step()
        except (PenstockError, OSError) as error:
            if isinstance(error, BucketFailedError) and "whole or not at all" in str(error):
                self.in_doubt += self.possible
            self.possible = []
            return error
        return None

    def upsert(self) -> None:
        """Write every row."""
        self._write([(p, slot) for p in range(PARTITIONS) for slot in range(SLOTS)])

    def upsert_some(self) -> None:
        """Write a few rows, of some of the buckets."""
        random = Random(self._calls)
        self._write([(random.randrange(PARTITIONS), slot) for slot in random.sample(range(SLOTS), 3)])

    def delete(self) -> None:
        """Delete some rows of every partition."""
        keys = [(p, slot) for p in range(PARTITIONS) for slot in range(self._calls % 3, SLOTS, 3)]
        after = {key: v for key, v in self.rows.items() if key not in keys}
        self._send(Operation.DELETE, {"p": [p for p, _ in keys], "slot": [slot for _, slot in keys]}, after)

    def roll(self) -> None:
        """Finish the segments."""
        self._each(lambda tablet: tablet.exclusively(tablet.roll))

    def seal(self) -> None:
        """Move the rows of every other bucket to data files."""
        for number, tablet in enumerate(self.table.committer.tablets.values()):
            if number % 2:
                seal(tablet, active_too=True)

    def checkpoint(self) -> None:
        """Save what every other bucket has."""
        for number, tablet in enumerate(self.table.committer.tablets.values()):
            if not number % 2:
                checkpoint(tablet, self.index.flush)

    def compact(self) -> None:
        """Drop the history of all buckets."""
        self._each(lambda tablet: checkpoint(tablet, self.index.flush))
        self._each(lambda tablet: compact(tablet, tablet.view.visible))

    def drop(self) -> None:
        """Drop a partition; the next call makes it again."""
        after = _without(self.rows, 1)
        self.in_doubt = [_without(rows, 1) for rows in self.in_doubt]
        self.possible = [after]
        self.table.drop_partition({"p": 1}, if_exists=True)
        self.rows, self.possible = after, []

    def found(self) -> Rows:
        """Return the rows that the table shows."""
        found: Rows = {}
        for view in self.table.view.values():
            for block in view.scan(view.visible, self.table.schema.user_columns):
                columns = [block.batch.column(name).to_pylist() for name in ("0", "1", "2")]
                for p, slot, v in zip(*columns, strict=True):
                    assert (p, slot) not in found, "a key is there twice"
                    found[p, slot] = v
        return found

    def check(self) -> None:
        """Check that the table has the rows before the last step or after it, and take it that these are there."""
        found = self.found()
        assert found in [self.rows, *self.possible], (self.rows, self.possible, found)
        self.rows, self.possible = found, []

    def _write(self, keys: list[tuple[int, int]]) -> None:
        self._calls += 1
        keys = sorted(set(keys))
        columns = {"p": [p for p, _ in keys], "slot": [slot for _, slot in keys], "v": [self._calls] * len(keys)}
        self._send(Operation.UPSERT, columns, self.rows | dict.fromkeys(keys, self._calls))

    def _send(self, operation: Operation, columns: dict[str, list[Any]], after: Rows) -> None:
        self.possible = [after]
        info = self.table.info
        schema = pa.schema([info.schema.arrow_schema.field(name) for name in columns])
        batch = pa.record_batch(list(columns.values()), schema=schema)
        self.table.write(WriteCall(info.table_id, info.schema_id, operation, batch), principal=LOCAL)
        self.rows, self.possible = after, []

    def _each(self, act: Callable[[Any], object]) -> None:
        for tablet in list(self.table.committer.tablets.values()):
            act(tablet)


def _without(rows: Rows, partition: int) -> Rows:
    return {key: v for key, v in rows.items() if key[0] != partition}
