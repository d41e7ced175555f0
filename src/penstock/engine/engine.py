"""The engine: a whole node without a network. Embedded mode is the client over one of these."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from penstock.engine.backup.backup import Backup
from penstock.engine.catalog.catalog import Catalog
from penstock.engine.catalog.identity import Identity
from penstock.engine.catalog.terms import Terms
from penstock.engine.changes.reader import ChangeReader
from penstock.engine.home.data_directory import DataDirectory
from penstock.engine.home.storage import Storage
from penstock.engine.lease_calls import LeaseCalls
from penstock.engine.leases.service import LeaseDesk
from penstock.engine.leases.store import LeaseBook
from penstock.engine.lookup.service import lookup, prefix_lookup
from penstock.engine.metadata.store import MetadataStore
from penstock.engine.owner_calls import OwnerCalls
from penstock.engine.owners.service import NodeOwners
from penstock.engine.scan.cuts import Cuts
from penstock.engine.scan.named_cuts import NamedCuts
from penstock.engine.scan.service import Scanners
from penstock.engine.settings import Settings
from penstock.engine.table.bucket_names import naming
from penstock.engine.table.deletion import delete_matching
from penstock.engine.table.lease_pins import Holds
from penstock.engine.table.open_tables import OpenTables
from penstock.engine.table.restart_grace import Grace
from penstock.engine.table.unknown_files import settle_unknown
from penstock.engine.upkeep.maintenance import Maintenance
from penstock.engine.upkeep.statistics import table_stats
from penstock.errors import PartitionNotFoundError
from penstock.model.filter.filter import Filter
from penstock.model.node.calls import (
    Cut,
    LookupCall,
    LookupResult,
    OpenScan,
    Page,
    ScannerInfo,
    TableStats,
    WriteCall,
    WriteResult,
)
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.aggregate import AggFunction
from penstock.model.table.table import TableInfo, TableSpec
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.directory_lock import DirectoryLock
from penstock.runtime.metrics import Metrics
from penstock.runtime.steady_clock import LatestClock, SteadyClock
from penstock.runtime.tasks import TaskGroup
from penstock.tablet.merge.factory import merge_rule
from penstock.tablet.settings import FsyncMode

MAINTENANCE_INTERVAL_MS = 500
REAP_INTERVAL_MS = 1_000
LEASES_INTERVAL_MS = 1_000
STORAGE_INTERVAL_MS = 10_000


class Engine(LeaseCalls, OwnerCalls):
    """A node over one data directory; implements `penstock.model.node.node.Node`. Thread-safe."""

    def __init__(
        self,
        *,
        storage: Storage,
        metadata: MetadataStore,
        settings: Settings,
        clock: Clock,
        tasks: TaskGroup,
        lock: DirectoryLock | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self._metadata = metadata
        self._storage = storage
        self._lock = lock
        self._tasks = tasks
        self._closed = False
        steady = SteadyClock(clock)
        dated = LatestClock(steady, clock)
        disk, make_room = storage.disk, storage.room.give_up
        self._catalog = Catalog(metadata, dated, disk.exists, tables_max=settings.tables_max, make_room=make_room)
        self._identity = Identity(metadata)
        self._grace = Grace(settings.scanner_ttl_ms, clock)
        holds, book = Holds(), LeaseBook(metadata, clock, make_room)
        # Before a table is opened or removed: what is leased is protected from the first moment on.
        loaded = book.load(holds)
        settle_unknown(self._catalog, storage)
        self._tables = OpenTables(self._catalog, storage, Terms(metadata), self._grace, holds, clock=clock)
        self.owners = NodeOwners(self._tables.get, metadata, disk=storage.disk, settings=settings, clock=clock)
        self._tables.on_open = self.owners.attach
        self._tables.committed_offsets = self.owners.committed_offsets
        self._tables.finish_drops()
        self._cuts = Cuts(settings, clock)
        self._named_cuts = NamedCuts(metadata, clock)
        self.scanners = Scanners(self._tables.get, settings, clock, self.metrics, self._cuts, identity=self._identity)
        self._changes = ChangeReader(settings, clock, self._tables.left_bucket)
        self._tables.is_awaited = self._changes.awaits
        self.maintenance = Maintenance(self._tables, self._catalog, settings, steady, flush_index=storage.index.flush)
        self.leases = LeaseDesk(
            loaded,
            book,
            holds,
            self._tables,
            catalog=self._catalog,
            maintenance=self.maintenance,
            settings=settings,
            clock=clock,
            metrics=self.metrics,
            flush_index=storage.index.flush,
            kick=lambda: tasks.kick("leases"),
        )
        self._backup = Backup(self._tables, self._catalog, metadata, self.leases.claims, clock=clock)
        try:
            self.owners.resume()
        except BaseException:
            self._tables.close()
            raise
        tasks.every("maintenance", MAINTENANCE_INTERVAL_MS, self._maintain)
        if settings.fsync is FsyncMode.INTERVAL:
            tasks.every("sync", settings.fsync_interval_ms, self.maintenance.sync_logs)
        tasks.every("leases", LEASES_INTERVAL_MS, self.leases.run)
        tasks.every("reap", REAP_INTERVAL_MS, self.reap)
        tasks.every("storage", STORAGE_INTERVAL_MS, storage.tidy)

    @classmethod
    def open(cls, directory: str | Path, settings: Settings | None = None) -> Engine:
        """Open a data directory, made if it is not there, and hold it until `close`.

        Raises:
            DirectoryInUseError: another process, or this one, has it open.
            InvalidError: the path is a file's.
            PermissionDeniedError: it may not be written.
            CorruptionError: stored bytes are not what was written.
        """
        root = Path(directory)
        clock = SystemClock()
        held = DataDirectory.take(root, settings, clock)
        try:
            engine = cls(
                storage=held.storage,
                metadata=held.metadata,
                settings=held.settings,
                clock=clock,
                tasks=TaskGroup(clock),
                lock=held.lock,
            )
        except BaseException:
            held.let_go()
            raise
        # A forgotten engine is closed in order when the process ends; one that was dropped is not kept alive.
        atexit.register(_close_forgotten, weakref.ref(engine), os.getpid())
        return engine

    def database_id(self) -> str:
        """Return the id of this database, which no other has."""
        return self._identity.database

    def check_origin(
        self, database: str, table_id: int, offsets: Mapping[TableBucket, int], births: int | None = None
    ) -> None:
        """Refuse a place in a table unless it is of this database, or of what it has of an ancestor."""
        self._identity.check_origin(database, table_id, offsets, births)

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a database."""
        self._catalog.create_database(name, if_not_exists=if_not_exists)

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        return self._catalog.list_databases()

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop a database; with tables in it only if `cascade`."""
        for info in self._catalog.drop_database(name, cascade=cascade, if_exists=if_exists):
            self._drop(info)

    def create_table(self, path: str, spec: TableSpec, *, if_not_exists: bool = False) -> TableInfo:
        """Create a table."""
        if spec.keyed:
            merge_rule(spec)
        return self._catalog.create_table(path, spec, if_not_exists=if_not_exists)

    def table(self, path: str) -> TableInfo:
        """Return the table of that path as it is now."""
        return self._catalog.table(path)

    def table_by_id(self, table_id: int) -> TableInfo:
        """Return the table of that id as it is now; one that was dropped to who has a lease on it."""
        return self._catalog.table_by_id(table_id, dropped=self.leases.owns(table_id))

    def list_tables(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted."""
        return self._catalog.list_tables(database)

    def drop_table(self, path: str, *, if_exists: bool = False) -> None:
        """Drop a table."""
        info = self._catalog.drop_table(path, if_exists=if_exists)
        if info is not None:
            self._drop(info)

    def add_column(self, table_id: int, name: str, type: pa.DataType, agg: AggFunction | None = None) -> TableInfo:
        """Add a nullable column; rows written before read null."""
        table = self._table(table_id)
        info = self._catalog.add_column(table_id, name, type, agg)
        table.set_info(info)
        return info

    def list_partitions(self, table_id: int) -> list[str]:
        """Return the partition names of a table, sorted."""
        return [partition.name for partition in self._catalog.partitions.of(table_id)]

    def create_partition(self, table_id: int, values: Mapping[str, object], *, if_not_exists: bool = False) -> str:
        """Create a partition; return its name."""
        return self._table(table_id).create_partition(values, if_not_exists=if_not_exists).name

    def drop_partition(self, table_id: int, values: Mapping[str, object], *, if_exists: bool = False) -> None:
        """Drop a partition with its rows."""
        self._check_open()
        self._tables.drop_partition(table_id, values, if_exists=if_exists)

    def buckets(self, table_id: int) -> list[TableBucket]:
        """Return every bucket of the table, of every partition, sorted."""
        return self._table(table_id).buckets()

    def write(self, call: WriteCall) -> WriteResult:
        """Apply a write; return when it is durable and visible."""
        self.settings.check_write(call)
        table = self._table(call.table_id)
        self._check_owner(call.owner)
        with naming(table.name):
            self.maintenance.check_relieved(table, call.batch.nbytes)
        self._storage.room.check(call.batch.nbytes)
        result = table.write(call)
        for bucket in result.offsets:
            # What was written is told as written, also if its partition is dropped right after.
            with suppress(PartitionNotFoundError):
                tablet = table.committer.tablets.get(table.bucket_id(bucket))
                if tablet is not None:
                    self.maintenance.relieve(tablet, table)
        return result

    def write_stream(self) -> None:
        """Offer no way to send writes ahead: they do not travel."""

    def delete_where(self, table_id: int, filter: bytes, writer_id: bytes, sequence: int) -> WriteResult:
        """Delete the rows that match a serialised filter, as of one cut."""
        table = self._table(table_id)
        return delete_matching(table, Filter.from_bytes(filter, table.info.schema), writer_id, sequence)

    def truncate(self, table_id: int) -> WriteResult:
        """Delete all rows, in the changelog; of a log table all that is there."""
        table = self._table(table_id)
        self._storage.room.give_up()
        if table.info.keyed:
            return delete_matching(table, None)
        return WriteResult(self.maintenance.truncate(table), 0, 0)

    def open_cut(
        self,
        table_id: int,
        *,
        as_of: Mapping[TableBucket, int] | None = None,
        buckets: Sequence[TableBucket] | None = None,
    ) -> Cut:
        """Take and pin the present cut, or pin the one given."""
        return self._cuts.open(self._table(table_id), as_of, buckets)

    def release_cut(self, cut_id: str) -> None:
        """Unpin a cut; idempotent."""
        self._cuts.release(cut_id)

    def named_cut(self, table_id: int, name: str, ttl_ms: int) -> Cut:
        """Return the cut of that name, which the first to ask fixes."""
        return self._named_cuts.take(self._table(table_id), name, ttl_ms)

    def open_scanner(self, call: OpenScan) -> Page:
        """Open a scan session and return its first page (call 0)."""
        self._check_open()
        if call.lease_id is not None:
            return self.scanners.open(call, self.leases.find(call.lease_id, call.table_id, call.bucket, call.as_of))
        bucket = None if call.cut_id is None else self._cuts.find(call.cut_id, call.bucket)
        if bucket is not None:
            # Its partition may have expired under the reader, and the name may stand for another by now.
            return self.scanners.open(call, (self._tables.holding(bucket), bucket))
        return self.scanners.open(call)

    def open_scanners(self, calls: Sequence[OpenScan]) -> list[Page]:
        """Open scan sessions up to the first with more than a page; return their first pages."""
        return self.scanners.open_some(calls, self.open_scanner)

    def next_page(self, scanner_id: str, call_seq_id: int) -> Page:
        """Return the page of that call number: the next one, or the latest again."""
        self._check_open()
        return self.scanners.next_page(scanner_id, call_seq_id)

    def pages(self, scanner_id: str, call_seq_id: int) -> Generator[Page, None, None]:
        """Yield the pages from that call number on."""
        yield from self.scanners.pages(scanner_id, call_seq_id)

    def close_scanner(self, scanner_id: str) -> None:
        """End a scan session; idempotent."""
        self.scanners.close(scanner_id)

    def read_token(self, token: bytes) -> OpenScan:
        """Return the call that goes on where the page with that resume token ended."""
        self._check_open()
        return self.scanners.read_token(token)

    def list_scanners(self) -> list[ScannerInfo]:
        """Return the open scan sessions."""
        return self.scanners.list()

    def kill_scanner(self, scanner_id: str) -> None:
        """End somebody's scan session."""
        self.scanners.kill(scanner_id)

    def lookup(self, call: LookupCall) -> LookupResult:
        """Return one row for each key in the order asked, with `_found`."""
        return lookup(self._table(call.table_id), call)

    def prefix_lookup(self, call: LookupCall) -> LookupResult:
        """Return the live rows whose first key columns equal the one row of `keys`."""
        return prefix_lookup(self._table(call.table_id), call)

    def stats(self, table_id: int) -> TableStats:
        """Return the state of a table."""
        background = self.maintenance.counts(table_id) | {"failures": self._tasks.failures()}
        return table_stats(self._table(table_id), background)

    def step_down(self, bucket: TableBucket) -> None:
        """Stop leading a bucket; its scan sessions end, their readers go on elsewhere with their tokens."""
        table = self._table(self._catalog.table(bucket.table).table_id)
        table.step_down(table.bucket_id(bucket))
        self.scanners.close_bucket(table.bucket_id(bucket))

    def take_up(self, bucket: TableBucket) -> int:
        """Lead a bucket again; return its new term."""
        table = self._table(self._catalog.table(bucket.table).table_id)
        return table.take_up(table.bucket_id(bucket))

    def reopen(self, bucket: TableBucket) -> None:
        """Reopen a bucket that failed, cut at its last acknowledged offset."""
        table = self._table(self._catalog.table(bucket.table).table_id)
        table.reopen(table.bucket_id(bucket))

    def _maintain(self) -> None:
        if self._lock is not None:
            self._lock.check_in_place()
        self.maintenance.run()

    def reap(self) -> None:
        """Let go of everything that expired."""
        self._grace.reap()
        self.scanners.reap()
        self._cuts.reap()
        self._named_cuts.reap()
        self._changes.reap()
        self.owners.reap()

    def close(self) -> None:
        """Finish writes under way, save what reopening needs, let go of the directory; idempotent."""
        if self._closed:
            return
        self._closed = True
        self._tasks.close()
        self.scanners.close_all()
        # Of a directory that was moved away everything is left as a crash would leave it.
        in_place = self._lock is None or self._lock.in_place
        if in_place:
            self.maintenance.checkpoint_before_close()
        self._tables.close()
        self._storage.close(flush=in_place)
        self._metadata.close()
        if self._lock is not None:
            self._lock.release()

    def _drop(self, info: TableInfo) -> None:
        table = next((table for table in self._tables.all() if table.info.table_id == info.table_id), None)
        gone = [] if table is None else [table.bucket_id(bucket) for bucket in table.buckets()]
        self._tables.drop(info)
        self.owners.forget(info.table_id)
        # A session that was opened meanwhile finds its bucket gone.
        for bucket in gone:
            self.scanners.close_bucket(bucket)


def _close_forgotten(reference: weakref.ref[Engine], pid: int) -> None:
    engine = reference()
    if engine is not None and os.getpid() == pid:
        engine.close()
