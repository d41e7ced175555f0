"""Open tables on memory parts: a whole table, its committer and its buckets, without files or RocksDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from tests.kit.memory_key_index import MemoryKeyIndex

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.catalog.terms import Terms
from penstock.engine.commit.sync_pool import SyncPool
from penstock.engine.home.storage import Storage
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.settings import Settings
from penstock.engine.table.open_table import OpenTable
from penstock.errors import ClosedError
from penstock.log.settings import LogSettings
from penstock.model.node.calls import Operation, WriteCall, WriteResult
from penstock.model.node.principal import LOCAL
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.agg_mode import AggMode
from penstock.model.schema.schema import Schema
from penstock.model.table.spec import make_spec
from penstock.model.table.table import TableInfo
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.sealing import seal
from penstock.testing.faulty_disk import FaultyDisk
from penstock.testing.manual_clock import ManualClock


class OpenTableRig:
    """A disk, an index, a catalog and a clock in memory, and tables open on them."""

    def __init__(self, disk: FaultyDisk | None = None, log_settings: LogSettings | None = None) -> None:
        self.disk = disk or FaultyDisk()
        self.clock = ManualClock()
        self.settings = Settings()
        self.metadata = MemoryMetadataStore()
        self.catalog = Catalog(self.metadata, self.clock)
        self.storage = Storage(self.disk, MemoryKeyIndex(), self.settings, log_settings)
        self._terms = Terms(self.metadata)
        self._syncs = SyncPool()
        self._tables: dict[int, OpenTable] = {}

    def create(self, path: str, schema: Schema | str | pa.Schema, **options: Any) -> OpenTable:
        """Create a table, as `create_table` does, and open it."""
        return self.table(self.catalog.create_table(path, make_spec(schema, **options), creator=LOCAL).table_id)

    def table(self, table_id: int) -> OpenTable:
        """Return a table, opened if it was not."""
        if table_id not in self._tables:
            self._tables[table_id] = OpenTable(
                self.catalog.table_by_id(table_id),
                self.catalog,
                self.storage.open_tablets,
                terms=self._terms,
                clock=self.clock,
                syncs=self._syncs,
            )
        return self._tables[table_id]

    def add_column(self, table: OpenTable, name: str, kind: pa.DataType) -> None:
        """Add a column."""
        take_up(table, self.catalog.add_column(table.info.table_id, name, kind, None))

    def seal(self, table: OpenTable) -> None:
        """Move all rows of a table into data files."""
        for tablet in table.committer.tablets.values():
            seal(tablet, active_too=True)

    def compact(self, table: OpenTable, target: int) -> None:
        """Seal, checkpoint and compact every bucket: its base goes as far towards `target` as pins allow."""
        self.seal(table)
        for tablet in table.committer.tablets.values():
            checkpoint(tablet, self.storage.index.flush)
            compact(tablet, target)

    def close_tables(self) -> None:
        """Close every table; each is opened anew when it is asked for."""
        for table in self._tables.values():
            table.close(ClosedError("the rig is closed"))
        self._tables.clear()

    def close(self) -> None:
        """Close every table; idempotent."""
        self.close_tables()
        self._syncs.close()


@contextmanager
def open_tables(log_settings: LogSettings | None = None) -> Iterator[OpenTableRig]:
    """Give a rig, and close it."""
    rig = OpenTableRig(log_settings=log_settings)
    try:
        yield rig
    finally:
        rig.close()


def write(
    table: OpenTable, rows: Sequence[dict[str, Any]], operation: Operation | None = None, **call: Any
) -> WriteResult:
    """Write rows: upsert on a table with a key, append on a log table, unless told otherwise."""
    names = table.info.primary_key if operation is Operation.DELETE else table.info.schema.names
    schema = pa.schema([table.info.schema.arrow_schema.field(name) for name in names])
    return write_batch(table, pa.RecordBatch.from_pylist(list(rows), schema=schema), operation, **call)


def write_batch(
    table: OpenTable, batch: pa.RecordBatch, operation: Operation | None = None, **call: Any
) -> WriteResult:
    """Write a batch with the table's columns."""
    info = table.info
    if "agg_mode" in call:
        call["agg_mode"] = AggMode.parse(call["agg_mode"])
    kind = operation or (Operation.UPSERT if info.keyed else Operation.APPEND)
    return table.write(WriteCall(info.table_id, info.schema_id, kind, batch, **call), principal=LOCAL)


def delete(table: OpenTable, keys: Sequence[dict[str, Any]]) -> WriteResult:
    """Delete rows by key."""
    return write(table, keys, Operation.DELETE)


def bucket(table: OpenTable, number: int = 0, partition: str | None = None) -> TableBucket:
    """Return a bucket's name."""
    return TableBucket(table.info.path, partition, number)


def pins(table: OpenTable, number: int = 0, partition: str | None = None) -> dict[str, int]:
    """Return the pins of a bucket."""
    tablet = table.committer.tablets[table.bucket_id(bucket(table, number, partition))]
    return {str(holder): offset for holder, offset in tablet.pins.snapshot().items()}


def take_up(table: OpenTable, info: TableInfo) -> None:
    """Have an open table go by a definition that the catalog has already."""

    def step() -> TableInfo:
        table.take_info(info)
        return info

    table.exclusively(step)
