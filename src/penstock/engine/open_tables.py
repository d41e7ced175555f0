"""The tables of a node that are open, opened on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.engine.catalog import Catalog
from penstock.engine.grace import Grace
from penstock.engine.holds import Holds
from penstock.engine.live_table import LiveTable
from penstock.engine.storage import Storage
from penstock.engine.sync_pool import SyncPool
from penstock.engine.terms import Terms
from penstock.errors import ClosedError, PartitionNotFoundError
from penstock.model.bucket import BucketId
from penstock.model.table import TableInfo
from penstock.runtime.clock import Clock
from penstock.tablet.merge_rule import MergeRule
from penstock.tablet.tablet import Tablet
from penstock.tablet.tablet_schema import TabletSchema

READER_PINS = ("cut-", "scanner-")


class OpenTables:
    """Live tables by id. Thread-safe.

    What is dropped while somebody holds it vanishes for everyone else, and is removed by `finish_drops`
    when nobody does any more.
    """

    def __init__(
        self, catalog: Catalog, storage: Storage, terms: Terms, grace: Grace, holds: Holds, *, clock: Clock
    ) -> None:
        self._catalog = catalog
        self._storage = storage
        self._terms = terms
        self._grace = grace
        self._clock = clock
        self._holds = holds
        self._syncs = SyncPool()
        self._lock = threading.RLock()
        self._removing = threading.RLock()
        self._tables: dict[int, LiveTable] = {}
        self._dropping: dict[int, LiveTable] = {}
        self._closed = False
        self.on_open: Callable[[LiveTable], None] = lambda table: None
        """Called with a table that was just opened, before anybody else sees it."""

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
                table = self._open(self._catalog.table_by_id(table_id))
                self.on_open(table)
                self._tables[table_id] = table
            return table

    def holding(self, bucket: BucketId) -> LiveTable:
        """Return the table that has a bucket, for somebody who holds the bucket: it may be dropped since.

        Raises:
            TableNotFoundError: the table is gone.
            PartitionNotFoundError: the partition is gone.
            ClosedError: the node is closed.
        """
        with self._lock:
            self._check_open()
            table_id = bucket.table_id
            if table_id in self._catalog.dropped():
                if table_id not in self._dropping:
                    self._dropping[table_id] = self._open(self._catalog.table_by_id(table_id, dropped=True))
                table = self._dropping[table_id]
            else:
                table = self.get(table_id)
        if table.info.partitioned and table.tablet(bucket) is None:
            self._open_left(table, bucket)
        return table

    def _open_left(self, table: LiveTable, bucket: BucketId) -> None:
        """Open a bucket that left with its partition, while nobody removes its files.

        Raises:
            PartitionNotFoundError: they were removed.
        """
        key = (bucket.table_id, bucket.partition_id)
        with self._removing:
            if table.tablet(bucket) is None and key in self._catalog.partitions.dropped():
                partition = self._catalog.partitions.find(*key)
                assert partition is not None, "a partition that is dropping has a record"
                table.open_left(partition)
        if table.tablet(bucket) is None and not self._is_led_elsewhere(table, bucket):
            raise PartitionNotFoundError("the partition was dropped", table=table.info.path)

    def opened(self, table_id: int) -> LiveTable | None:
        """Return a table that is open now, also one that was dropped since; None if it is not open."""
        with self._lock:
            return self._tables.get(table_id) or self._dropping.get(table_id)

    def all(self) -> list[LiveTable]:
        """Return the tables that are open now."""
        with self._lock:
            return list(self._tables.values())

    def tablets(self) -> list[tuple[LiveTable, Tablet]]:
        """Return every open bucket with its table."""
        return [(table, tablet) for table in self.all() for tablet in list(table.committer.tablets.values())]

    def drop(self, info: TableInfo) -> None:
        """Let go of a dropped table and remove its files, now or when nobody holds it any more."""
        with self._lock:
            table = self._tables.pop(info.table_id, None)
            if table is not None:
                self._dropping[info.table_id] = table
        # From here on nobody new can hold it.
        if not self._holds.has(info.table_id):
            self.finish_drops()
        elif table is not None:
            table.retire()

    def finish_drops(self) -> None:
        """Remove the files of tables and partitions whose drop was interrupted, or waited for who held them."""
        with self._removing:
            for table_id in self._catalog.dropped():
                if not self._holds.has(table_id) and table_id not in self._tables:
                    self._remove_table(table_id)
            dropped = set(self._catalog.dropped())
            for table_id, partition_id in self._catalog.partitions.dropped():
                if table_id not in dropped:
                    self.remove_partition(table_id, partition_id, readers=True)

    def remove_partition(self, table_id: int, partition_id: int, *, readers: bool = False) -> None:
        """Let go of a dropped partition and remove its files, now or when nobody holds it any more.

        With `readers` those count who are in the middle of reading it, too.
        """
        with self._removing:
            table = self._tables.get(table_id)
            if table is not None:
                # From here on nobody new can hold or read it.
                table.drop_partition(partition_id)
            if self._holds.has(table_id, partition_id):
                return
            if table is not None:
                if readers and self._is_read(table, partition_id):
                    return
                table.left.remove(partition_id)
            buckets = self._catalog.table_by_id(table_id, dropped=True).buckets
            self._storage.remove_partition(table_id, partition_id, buckets)
            self._catalog.partitions.forget(table_id, partition_id)

    def close(self) -> None:
        """Close every table; idempotent."""
        with self._lock:
            self._closed = True
            tables = [*self._tables.values(), *self._dropping.values()]
        for table in tables:
            table.close(ClosedError("the node is closed"))
        self._syncs.close()

    def _remove_table(self, table_id: int) -> None:
        with self._lock:
            table = self._dropping.pop(table_id, None)
        if table is not None:
            table.drop()
        info = self._catalog.table_by_id(table_id, dropped=True)
        ids = [0] if not info.partitioned else self._partition_ids_on_disk(table_id)
        buckets = [BucketId(table_id, partition, bucket) for partition in ids for bucket in range(info.buckets)]
        self._storage.remove_table(table_id, buckets)
        self._catalog.forget(table_id)

    def _open(self, info: TableInfo) -> LiveTable:
        return LiveTable(
            info, self._catalog, self._open_tablet, terms=self._terms, clock=self._clock, syncs=self._syncs
        )

    def _open_tablet(self, bucket: BucketId, schema: TabletSchema, rule: MergeRule, first_offset: int) -> Tablet:
        tablet = self._storage.open_tablet(bucket, schema, rule, first_offset)
        self._holds.protect(tablet)
        self._grace.hold(tablet)
        return tablet

    def _is_led_elsewhere(self, table: LiveTable, bucket: BucketId) -> bool:
        return any(partition.partition_id == bucket.partition_id for partition in table.partitions())

    def _is_read(self, table: LiveTable, partition_id: int) -> bool:
        ids = [BucketId(table.info.table_id, partition_id, bucket) for bucket in range(table.info.buckets)]
        tablets = [tablet for tablet in map(table.tablet, ids) if tablet is not None]
        return any(name.startswith(READER_PINS) for tablet in tablets for name in tablet.pins.snapshot())

    def _partition_ids_on_disk(self, table_id: int) -> list[int]:
        return [int(name) for name in self._storage.disk.list(f"tables/{table_id}") if name.isdigit()]

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the node is closed")
