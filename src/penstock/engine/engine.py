"""The engine: a whole node without a network. Embedded mode is the client over one of these."""

from __future__ import annotations

import atexit
import os
import weakref
from pathlib import Path

from penstock.engine.backup.backup import BackupStart
from penstock.engine.backup.service import Backups, BackupService
from penstock.engine.catalog.catalog import Catalog
from penstock.engine.catalog.identity import Identity
from penstock.engine.catalog.terms import Terms
from penstock.engine.changes.reader import ChangeReader
from penstock.engine.changes.service import ChangesService
from penstock.engine.facets import NodeFacets
from penstock.engine.home.data_directory import DataDirectory
from penstock.engine.home.node_state import NodeState
from penstock.engine.home.storage import Storage
from penstock.engine.leases.lease_room import LeaseRoom
from penstock.engine.leases.store import LeaseStore
from penstock.engine.lookup.service import LookupService
from penstock.engine.metadata.store import MetadataStore
from penstock.engine.owners.service import OwnerService
from penstock.engine.scan.cuts import Cuts
from penstock.engine.scan.named_cuts import NamedCuts
from penstock.engine.scan.service import ScanService
from penstock.engine.settings import Settings
from penstock.engine.table.catalog_service import CatalogService
from penstock.engine.table.lease_pins import LeasePins
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.open_tables import OpenTables
from penstock.engine.table.restart_grace import RestartGrace
from penstock.engine.table.service import TableService
from penstock.engine.table.unknown_files import settle_unknown
from penstock.engine.upkeep.maintenance import Maintenance
from penstock.engine.upkeep.node_metrics import NodeMetrics
from penstock.engine.upkeep.row_expiry import RowExpiry
from penstock.model.node.log_state import LogState
from penstock.model.node.principal import LOCAL
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.model.table.table import TableInfo
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.directory_lock import DirectoryLock
from penstock.runtime.metrics import Metrics
from penstock.runtime.steady_clock import LatestClock, SteadyClock
from penstock.runtime.tasks import TaskGroup
from penstock.tablet.settings import FsyncMode

MAINTENANCE_INTERVAL_MS = 500
REAP_INTERVAL_MS = 1_000
LEASES_INTERVAL_MS = 1_000
EXPIRY_INTERVAL_MS = 1_000
STORAGE_INTERVAL_MS = 10_000
METRICS_INTERVAL_MS = 10_000


class Engine:
    """A node over one data directory; implements `penstock.model.node.node.SharedNode`. Thread-safe.

    Composition only: it opens the parts, wires them, and closes them. Its facets are the services of the sub-rooms,
    as the principal `local` calls them; `acting_as` gives those of another principal.
    """

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
        self._metadata, self._storage, self._tasks = metadata, storage, tasks
        self._state = NodeState(lock)
        steady = SteadyClock(clock)
        dated = LatestClock(steady, clock)
        disk, make_room = storage.disk, storage.room.give_up
        self._catalog = Catalog(metadata, dated, disk.exists, tables_max=settings.tables_max, make_room=make_room)
        identity = Identity(metadata)
        self._grace = RestartGrace(settings.scanner_ttl_ms, clock)
        lease_pins, store = LeasePins(), LeaseStore(metadata, clock, make_room)
        # Before a table is opened or removed: what is leased is protected from the first moment on.
        loaded = store.load(lease_pins)
        settle_unknown(self._catalog, storage)
        self._tables = OpenTables(self._catalog, storage, Terms(metadata), self._grace, lease_pins, clock=clock)
        self.owners = OwnerService(
            self._tables.get, metadata, disk=disk, settings=settings, clock=clock, identity=identity, principal=LOCAL
        )
        self._tables.on_open = self.owners.attach
        self._tables.committed_offsets = self.owners.committed_offsets
        self._tables.finish_drops()
        self.maintenance = Maintenance(
            self._tables,
            self._catalog,
            settings,
            steady,
            flush_index=storage.index.flush,
            failures=tasks.failures,
        )
        room = LeaseRoom.open(
            loaded,
            store,
            lease_pins,
            self._tables,
            catalog=self._catalog,
            maintenance=self.maintenance,
            settings=settings,
            clock=clock,
            metrics=self.metrics,
            flush_index=storage.index.flush,
            kick=lambda: tasks.kick("leases"),
            principal=LOCAL,
        )
        self.leases, self.lease_upkeep = room.service, room.upkeep
        self._cuts = Cuts(settings, clock)
        self._named_cuts = NamedCuts(metadata, clock)
        self._change_reader = ChangeReader(settings, clock, self._tables.dropped_bucket)
        self._tables.is_awaited = self._change_reader.awaits
        self.scan = ScanService(
            self._table,
            settings,
            clock,
            self.metrics,
            cuts=self._cuts,
            named_cuts=self._named_cuts,
            identity=identity,
            principal=LOCAL,
            holding=self._tables.holding,
            find_leased=room.buckets.find,
            check_open=self._state.check,
        )
        self.changes = ChangesService(self._change_reader, self._table, self._log_state, room.buckets, principal=LOCAL)
        self.lookup = LookupService(self._table, self._cuts)
        self.tables = TableService(
            self._table, self.maintenance, storage.room, settings, self.owners.check_database, principal=LOCAL
        )
        self.catalog = CatalogService(
            self._catalog,
            identity,
            self._tables,
            self._state,
            on_drop=self._forget_table,
            holds_dropped=room.buckets.holds_dropped,
            principal=LOCAL,
        )
        self.row_expiry = RowExpiry(
            self._catalog, self._tables.get, steady, self.maintenance, self.metrics.counter("penstock_rows_expired")
        )
        self.node_metrics = NodeMetrics(self._tables.all, disk, self.metrics, tasks.failures)
        self.backup = BackupService(
            Backups(
                BackupStart(
                    self._tables,
                    self._catalog,
                    metadata,
                    lease_pins=lease_pins,
                    disk=disk,
                    seal=self.maintenance.seal_now,
                    clock=clock,
                ),
                clock,
                lambda: tasks.kick("leases"),
            ),
            self._state.check,
            principal=LOCAL,
        )
        try:
            self.owners.resume()
        except BaseException:
            self._tables.close()
            raise
        self._start(tasks)

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

    def acting_as(self, principal: str) -> NodeFacets:
        """Return the node as a principal sees it; what the principal acquires there is its own."""
        return NodeFacets(
            catalog=self.catalog.acting_as(principal),
            tables=self.tables.acting_as(principal),
            scan=self.scan.acting_as(principal),
            changes=self.changes.acting_as(principal),
            lookup=self.lookup,
            leases=self.leases.acting_as(principal),
            owners=self.owners.acting_as(principal),
            backup=self.backup.acting_as(principal),
        )

    def step_down(self, bucket: TableBucket) -> None:
        """Stop leading a bucket; its scan sessions end, their readers go on elsewhere with their tokens."""
        table = self._table_of(bucket)
        table.step_down(table.bucket_id(bucket))
        self.scan.close_bucket(table.bucket_id(bucket))

    def take_up(self, bucket: TableBucket) -> int:
        """Lead a bucket again; return its new term."""
        table = self._table_of(bucket)
        return table.take_up(table.bucket_id(bucket))

    def reopen(self, bucket: TableBucket) -> None:
        """Reopen a bucket that failed, cut at its last acknowledged offset."""
        table = self._table_of(bucket)
        table.reopen(table.bucket_id(bucket))

    def _maintain(self) -> None:
        self._state.check_in_place()
        self.maintenance.run()

    def reap(self) -> None:
        """Let go of everything that expired."""
        self._grace.reap()
        self.scan.reap()
        self._cuts.reap()
        self._named_cuts.reap()
        self._change_reader.reap()
        self.backup.backups.reap()
        self.owners.reap()

    def close(self) -> None:
        """Finish writes under way, save what reopening needs, let go of the directory; idempotent."""
        if self._state.closed:
            return
        self._state.closed = True
        self._tasks.close()
        self.scan.close_all()
        self.backup.backups.close()
        # Of a directory that was moved away everything is left as a crash would leave it.
        in_place = self._state.in_place
        if in_place:
            self.maintenance.checkpoint_before_close()
        self._tables.close()
        self._storage.close(flush=in_place)
        self._metadata.close()
        self._state.release()

    def _start(self, tasks: TaskGroup) -> None:
        """Begin the work in the background."""
        tasks.every("maintenance", MAINTENANCE_INTERVAL_MS, self._maintain)
        if self.settings.fsync is FsyncMode.INTERVAL:
            tasks.every("sync", self.settings.fsync_interval_ms, self.maintenance.sync_logs)
        tasks.every("rows", EXPIRY_INTERVAL_MS, self.row_expiry.run)
        tasks.every("leases", LEASES_INTERVAL_MS, self.lease_upkeep.run)
        tasks.every("reap", REAP_INTERVAL_MS, self.reap)
        tasks.every("storage", STORAGE_INTERVAL_MS, self._storage.tidy)
        self.node_metrics.run()
        tasks.every("metrics", METRICS_INTERVAL_MS, self.node_metrics.run)

    def _table(self, table_id: int) -> OpenTable:
        self._state.check()
        return self._tables.get(table_id)

    def _table_of(self, bucket: TableBucket) -> OpenTable:
        return self._table(self._catalog.table(bucket.table).table_id)

    def _log_state(self, table_id: int, since: int) -> LogState:
        self._state.check()
        return self._tables.log_state(table_id, since)

    def _forget_table(self, info: TableInfo, buckets: list[BucketId]) -> None:
        self.owners.forget(info.table_id)
        # A session that was opened meanwhile finds its bucket gone.
        for bucket in buckets:
            self.scan.close_bucket(bucket)


def _close_forgotten(reference: weakref.ref[Engine], pid: int) -> None:
    engine = reference()
    if engine is not None and os.getpid() == pid:
        engine.close()
