"""The tables of a node that are open, opened on first use."""

from __future__ import annotations

import threading

from penstock.engine.catalog import Catalog
from penstock.engine.live_table import LiveTable
from penstock.engine.storage import Storage
from penstock.engine.sync_pool import SyncPool
from penstock.engine.terms import Terms
from penstock.errors import ClosedError
from penstock.model.bucket import BucketId
from penstock.model.table import TableInfo
from penstock.runtime.clock import Clock
from penstock.tablet.tablet import Tablet


class OpenTables:
    """Live tables by id. Thread-safe."""

    def __init__(self, catalog: Catalog, storage: Storage, terms: Terms, clock: Clock) -> None:
        self._catalog = catalog
        self._storage = storage
        self._terms = terms
        self._clock = clock
        self._syncs = SyncPool()
        self._lock = threading.RLock()
        self._tables: dict[int, LiveTable] = {}
        self._closed = False

    def get(self, table_id: int) -> LiveTable:
        """Return the table, opened if it was not.

        Raises:
            TableNotFoundError: it was dropped.
            ClosedError: the node is closed.
        """
        table = self._tables.get(table_id)
        if table is not None:
            return table
        with self._lock:
            self._check_open()
            table = self._tables.get(table_id)
            if table is None:
                info = self._catalog.table_by_id(table_id)
                table = LiveTable(
                    info,
                    self._catalog,
                    self._storage.open_tablet,
                    terms=self._terms,
                    clock=self._clock,
                    syncs=self._syncs,
                )
                self._tables[table_id] = table
            return table

    def all(self) -> list[LiveTable]:
        """Return the tables that are open now."""
        with self._lock:
            return list(self._tables.values())

    def tablets(self) -> list[tuple[LiveTable, Tablet]]:
        """Return every open bucket with its table."""
        return [(table, tablet) for table in self.all() for tablet in list(table.committer.tablets.values())]

    def drop(self, info: TableInfo) -> None:
        """Let go of a dropped table and remove its files."""
        with self._lock:
            table = self._tables.pop(info.table_id, None)
        buckets = [BucketId(info.table_id, 0, bucket) for bucket in range(info.buckets)]
        if table is not None:
            table.drop()
            buckets = list(table.committer.tablets)
        self._storage.remove_table(info.table_id, buckets)
        self._catalog.forget(info.table_id)

    def finish_drops(self) -> None:
        """Remove the files of tables and partitions whose drop was interrupted."""
        for table_id in self._catalog.dropped():
            info = self._catalog.table_by_id(table_id, dropped=True)
            ids = [0] if not info.partitioned else self._partition_ids_on_disk(table_id)
            buckets = [BucketId(table_id, partition, bucket) for partition in ids for bucket in range(info.buckets)]
            self._storage.remove_table(table_id, buckets)
            self._catalog.forget(table_id)
        for table_id, partition_id in self._catalog.partitions.dropped():
            self.remove_partition(table_id, partition_id)

    def remove_partition(self, table_id: int, partition_id: int) -> None:
        """Let go of a dropped partition and remove its files."""
        table = self._tables.get(table_id)
        if table is not None:
            table.drop_partition(partition_id)
        buckets = self._catalog.table_by_id(table_id, dropped=True).buckets
        self._storage.remove_partition(table_id, partition_id, buckets)
        self._catalog.partitions.forget(table_id, partition_id)

    def close(self) -> None:
        """Close every table; idempotent."""
        with self._lock:
            self._closed = True
            tables = list(self._tables.values())
        for table in tables:
            table.close(ClosedError("the node is closed"))
        self._syncs.close()

    def _partition_ids_on_disk(self, table_id: int) -> list[int]:
        return [int(name) for name in self._storage.disk.list(f"tables/{table_id}") if name.isdigit()]

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the node is closed")
