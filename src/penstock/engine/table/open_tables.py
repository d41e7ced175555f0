"""The tables of a node that are open, opened on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.catalog.terms import Terms
from penstock.engine.commit.sync_pool import SyncPool
from penstock.engine.home.storage import Storage
from penstock.engine.table.lease_pins import LeasePins
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.restart_grace import RestartGrace
from penstock.errors import ClosedError, PartitionNotFoundError
from penstock.model.node.calls import Offsets
from penstock.model.node.log_state import GonePartition, LogState, gone_with
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.model.table.partition import PartitionInfo
from penstock.model.table.table import TableInfo
from penstock.runtime.clock import Clock
from penstock.tablet.files.durable import Durable
from penstock.tablet.merge.rule import MergeRule
from penstock.tablet.schema import TabletSchema
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.pins import PinKind


class OpenTables:
    """The tables that are open, by id. Thread-safe by two locks: one for the map, one for removing what was dropped.

    What is dropped while a reader or a lease holds it vanishes for all others, and is removed by `finish_drops`
    when it is held no more.
    """

    def __init__(
        self,
        catalog: Catalog,
        storage: Storage,
        terms: Terms,
        grace: RestartGrace,
        lease_pins: LeasePins,
        *,
        clock: Clock,
    ) -> None:
        self._catalog = catalog
        self._storage = storage
        self._terms = terms
        self._grace = grace
        self._clock = clock
        self._lease_pins = lease_pins
        self.syncs = SyncPool()
        self._lock = threading.RLock()
        self._removing = threading.RLock()
        self._tables: dict[int, OpenTable] = {}
        self._dropping: dict[int, OpenTable] = {}
        self._closed = False
        self.on_open: Callable[[OpenTable], None] = lambda table: None
        """Called with a table that was just opened, before any caller sees it."""
        self.is_awaited: Callable[[int, int], bool] = lambda table_id, partition_id: False
        """Tells whether a reader follows a table who cannot have heard of a partition yet."""
        # Their readers may come back: to them the restart of a node is a pause.
        self._waiting = set(catalog.partitions.dropped())
        self._waiting_until_ms = clock.monotonic_ms() + grace.ttl_ms
        self.committed_offsets: Callable[[int], Mapping[BucketId, int]] = lambda table_id: {}
        """Called with the id of a table that is about to be opened: how far its owners know its buckets to reach."""

    def get(self, table_id: int) -> OpenTable:
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

    def holding(self, bucket: BucketId) -> OpenTable:
        """Return the table that has a bucket, for the holder of the bucket: it may be dropped since.

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
            self._open_dropped(table, bucket)
        return table

    def _open_dropped(self, table: OpenTable, bucket: BucketId) -> None:
        """Open a bucket that left with its partition, while its files are not being removed.

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

    def opened(self, table_id: int) -> OpenTable | None:
        """Return a table that is open now, also one that was dropped since; None if it is not open."""
        with self._lock:
            return self._tables.get(table_id) or self._dropping.get(table_id)

    def dropped_bucket(self, table: OpenTable, name: TableBucket, offset: int) -> BucketId | None:
        """Return the bucket of a dropped partition that had this offset, opened; None if its files are gone."""
        found = table.dropped.find(name, offset)
        if found is None:
            gone = gone_with(self._catalog.partitions.gone(table.info.table_id), name, offset)
            if gone is not None and self._has_files(table, gone):
                found = table.dropped.find(name, offset)
        return None if found is None else found.bucket

    def log_state(self, table_id: int, since: int = 0) -> LogState:
        """Return the logs of a table, and where those ended that went with partitions from an id on.

        Raises:
            TableNotFoundError: it was dropped.
            ClosedError: the node is closed.
        """
        table = self.get(table_id)
        births, view = table.births_and_view()
        names = {bucket: table.find_name(bucket) for bucket in view}
        offsets = {name: Offsets(view[b].base, view[b].visible) for b, name in names.items() if name is not None}
        away = tuple(bucket for bucket in table.buckets() if bucket not in offsets)
        gone = self._catalog.partitions.gone(table_id, since)
        readable = tuple(replace(p, bases=self._bases(table, p)) if self._has_files(table, p) else p for p in gone)
        return LogState(offsets, births, readable, away)

    def _has_files(self, table: OpenTable, gone: GonePartition) -> bool:
        """Tell whether a dropped partition can still be read; it is open then."""
        key = (table.info.table_id, gone.partition_id)
        bucket = BucketId(*key, 0)
        if table.dropped.tablet(bucket) is None and key in self._catalog.partitions.dropped():
            with suppress(PartitionNotFoundError):
                self._open_dropped(table, bucket)
        return table.dropped.tablet(bucket) is not None

    @staticmethod
    def _bases(table: OpenTable, gone: GonePartition) -> tuple[int, ...] | None:
        ids = [BucketId(table.info.table_id, gone.partition_id, number) for number in range(len(gone.ends))]
        tablets = [table.dropped.tablet(bucket) for bucket in ids]
        return None if None in tablets else tuple(tablet.view.base for tablet in tablets if tablet is not None)

    def all(self) -> list[OpenTable]:
        """Return the tables that are open now."""
        with self._lock:
            return list(self._tables.values())

    def tablets(self) -> list[tuple[OpenTable, Tablet]]:
        """Return every open bucket with its table."""
        return [(table, tablet) for table in self.all() for tablet in list(table.committer.tablets.values())]

    def drop(self, info: TableInfo) -> None:
        """Let go of a dropped table and remove its files, now or when it is held no more."""
        with self._lock:
            table = self._tables.pop(info.table_id, None)
            if table is not None:
                self._dropping[info.table_id] = table
        # From here on it gets no new holder.
        if not self._lease_pins.has(info.table_id):
            self.finish_drops()
        elif table is not None:
            table.retire()

    def finish_drops(self) -> None:
        """Remove the files of tables and partitions whose drop was interrupted, or waited for who held them."""
        with self._removing:
            for table_id in self._catalog.dropped():
                if not self._lease_pins.has(table_id) and table_id not in self._tables:
                    self._remove_table(table_id)
            dropped = set(self._catalog.dropped())
            for table_id, partition_id in self._catalog.partitions.dropped():
                if table_id not in dropped:
                    self._remove_partition(table_id, partition_id)

    def drop_partition(
        self, table_id: int, values: Mapping[str, object] | PartitionInfo, *, if_exists: bool = False
    ) -> PartitionInfo | None:
        """Drop a partition and return it; its files go now, or when it is held and read no more.

        Raises:
            PenstockError: as `OpenTable.drop_partition` has it.
        """
        partition = self.get(table_id).drop_partition(values, if_exists=if_exists)
        if partition is not None:
            # It gets no new holder or reader.
            self._remove_partition(table_id, partition.partition_id)
        return partition

    def _remove_partition(self, table_id: int, partition_id: int) -> None:
        with self._removing:
            if self._lease_pins.has(table_id, partition_id) or self._is_waiting(table_id, partition_id):
                return
            table = self._tables.get(table_id)
            if table is not None:
                if self._is_read(table, partition_id):
                    return
                table.dropped.remove(partition_id)
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
        self.syncs.close()

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

    def _open(self, info: TableInfo) -> OpenTable:
        opened = partial(self._open_tablets, self.committed_offsets(info.table_id))
        return OpenTable(info, self._catalog, opened, terms=self._terms, clock=self._clock, syncs=self.syncs)

    def _open_tablets(
        self,
        committed: Mapping[BucketId, int],
        buckets: Mapping[BucketId, int],
        schema: TabletSchema,
        rule: MergeRule,
    ) -> dict[BucketId, Tablet]:
        durable: dict[BucketId, Durable] = {}
        for bucket in buckets:
            # A lease is recorded after the log was synced, an owner's commit where every write is.
            leased = max((hold.offset for hold in self._lease_pins.of(bucket).values()), default=0)
            durable[bucket] = Durable(leased, committed.get(bucket, 0))
        opened = self._storage.open_tablets(buckets, schema, rule, durable)
        for tablet in opened.values():
            self._lease_pins.protect(tablet)
            self._grace.hold(tablet)
        return opened

    def _is_led_elsewhere(self, table: OpenTable, bucket: BucketId) -> bool:
        return any(partition.partition_id == bucket.partition_id for partition in table.partitions())

    def _is_read(self, table: OpenTable, partition_id: int) -> bool:
        ids = [BucketId(table.info.table_id, partition_id, bucket) for bucket in range(table.info.buckets)]
        tablets = [tablet for tablet in map(table.dropped.tablet, ids) if tablet is not None]
        if any(_reads(tablet, holder.kind, at) for tablet in tablets for holder, at in tablet.pins.snapshot().items()):
            return True
        written = any(tablet.view.visible > tablet.bucket.first_offset(tablet.view.visible) for tablet in tablets)
        return written and self.is_awaited(table.info.table_id, partition_id)

    def _is_waiting(self, table_id: int, partition_id: int) -> bool:
        """Tell whether a partition was dropped before the node was started, for readers who may come back."""
        if self._clock.monotonic_ms() >= self._waiting_until_ms:
            self._waiting.clear()
        return (table_id, partition_id) in self._waiting and any(
            gone.partition_id == partition_id for gone in self._catalog.partitions.gone(table_id, partition_id)
        )

    def _partition_ids_on_disk(self, table_id: int) -> list[int]:
        return [int(name) for name in self._storage.disk.list(f"tables/{table_id}") if name.isdigit()]

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the node is closed")


def _reads(tablet: Tablet, kind: PinKind, at: int) -> bool:
    """Tell whether a pin of this kind at this offset is that of a reader who has something left to read."""
    if kind is PinKind.READER:
        return at < tablet.view.visible
    return kind in {PinKind.CUT, PinKind.SCANNER}
