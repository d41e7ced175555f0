"""A node that only reads a directory: the catalog and all tables as they are when it is opened, and so for good."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.catalog.identity import Identity
from penstock.engine.catalog.records import ROOT
from penstock.engine.catalog.terms import Terms
from penstock.engine.changes.reader import ChangeReader
from penstock.engine.changes.service import ChangesService
from penstock.engine.home.data_directory import METADATA
from penstock.engine.home.memory_budget import MemoryBudget
from penstock.engine.home.node_state import NodeState
from penstock.engine.leases.leased_buckets import NothingLeased
from penstock.engine.leases.service import SnapshotLister
from penstock.engine.leases.store import LeaseStore
from penstock.engine.lookup.service import LookupService
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.metadata.read_copy import read_entries
from penstock.engine.metadata.store import WRITES_MAX, Entry, Put
from penstock.engine.read_only.refusal import ReadingFacet
from penstock.engine.read_only.scanned_index import ScannedIndex
from penstock.engine.read_only.storage import ReadOnlyStorage
from penstock.engine.scan.cuts import Cuts
from penstock.engine.scan.named_cuts import NamedCuts
from penstock.engine.scan.service import ScanService
from penstock.engine.settings import Settings
from penstock.engine.table.catalog_service import CatalogService
from penstock.engine.table.lease_pins import LeasePins
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.open_tables import OpenTables
from penstock.engine.table.restart_grace import RestartGrace
from penstock.engine.upkeep.statistics import StatisticsOnly
from penstock.errors import (
    CorruptionError,
    InvalidError,
    NotFoundError,
    PenstockError,
    PermissionDeniedError,
    UnavailableError,
)
from penstock.model.node.facets.backup import BackupFacet
from penstock.model.node.facets.catalog import CatalogFacet
from penstock.model.node.facets.changes import ChangesFacet
from penstock.model.node.facets.leases import LeasesFacet
from penstock.model.node.facets.lookup import LookupFacet
from penstock.model.node.facets.owners import OwnersFacet
from penstock.model.node.facets.scan import ScanFacet
from penstock.model.node.facets.tables import TablesFacet
from penstock.model.node.log_state import LogState
from penstock.model.node.principal import LOCAL
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.metrics import Metrics
from penstock.runtime.open_files import allow_open_files, share_open_files
from penstock.runtime.read_only_disk import ReadOnlyDisk
from penstock.runtime.steady_clock import LatestClock, SteadyClock
from penstock.runtime.tasks import TaskGroup

TRIES: Final = 100
REAP_INTERVAL_MS: Final = 1_000


class ReadOnlyNode:
    """A node over a directory that it never changes; implements `penstock.model.node.node.Node`. Thread-safe.

    Composition only, as `Engine`.
    """

    def __init__(self, root: Path, entries: list[Entry], settings: Settings, clock: Clock) -> None:
        """Open all tables that the metadata names."""
        self._state, opened_ms = NodeState(), clock.wall_ms()
        metadata = _stored(entries)
        budget = MemoryBudget.of(settings)
        disk = ReadOnlyDisk(root)
        shares = share_open_files(allow_open_files())
        self._storage = ReadOnlyStorage(disk, ScannedIndex(budget.front), settings, budget.log_settings(shares))
        self._catalog = Catalog(metadata, LatestClock(SteadyClock(clock), clock), tables_max=settings.tables_max)
        identity = Identity(metadata)
        lease_pins = LeasePins()
        LeaseStore(metadata, clock).load(lease_pins)
        grace = RestartGrace(settings.scanner_ttl_ms, clock)
        self._tables = OpenTables(self._catalog, self._storage, Terms(metadata), grace, lease_pins, clock=clock)
        try:
            for info in self._catalog.tables():
                self._tables.get(info.table_id).committer.stop_time(opened_ms)
        except BaseException:
            self._tables.close()
            self._storage.close(flush=False)
            raise
        self._storage.freeze()
        self._cuts = Cuts(settings, clock)
        self._changes = ChangeReader(settings, clock, self._tables.dropped_bucket)
        nothing_leased = NothingLeased()
        self._scan = ScanService(
            self._table,
            settings,
            clock,
            Metrics(),
            cuts=self._cuts,
            named_cuts=NamedCuts(metadata, clock),
            identity=identity,
            principal=LOCAL,
            holding=self._tables.holding,
            find_leased=nothing_leased.find,
            check_open=self._state.check,
        )
        changes = ChangesService(self._changes, self._table, self._log_state, nothing_leased, principal=LOCAL)
        catalog = CatalogService(
            self._catalog,
            identity,
            self._tables,
            self._state,
            on_drop=lambda info, buckets: None,
            holds_dropped=lambda table_id, principal: False,
            principal=LOCAL,
        )
        self.catalog = cast("CatalogFacet", ReadingFacet("catalog", catalog, _CATALOG))
        self.tables = cast("TablesFacet", ReadingFacet("tables", StatisticsOnly(self._table), _TABLES))
        self.scan = cast("ScanFacet", ReadingFacet("scan", self._scan, _SCAN))
        self.changes = cast("ChangesFacet", ReadingFacet("changes", changes, _CHANGES))
        self.lookup: LookupFacet = LookupService(self._table, self._cuts)
        self.leases = cast("LeasesFacet", ReadingFacet("leases", SnapshotLister(self._table), {"list_snapshots"}))
        self.owners = cast("OwnersFacet", ReadingFacet("owners", None, ()))
        self.backup = cast("BackupFacet", ReadingFacet("backup", None, ()))
        self._tasks = TaskGroup(clock)
        self._tasks.every("reap", REAP_INTERVAL_MS, self._reap)

    @classmethod
    def open(cls, directory: str | Path, settings: Settings | None = None) -> ReadOnlyNode:
        """Open a directory as it is now: all that was acknowledged before is in it.

        Raises:
            NotFoundError: there is no data directory.
            InvalidError: the path is a file's.
            PermissionDeniedError: it may not be read.
            CorruptionError: stored bytes are not what was written.
            UnavailableError: it is changed faster than it can be read.
        """
        root = Path(directory)
        clock = SystemClock()
        try:
            _check_there(root)
            found = settings if settings is not None else Settings.load(root / "penstock.toml")
            for _ in range(TRIES):
                entries = read_entries(root / METADATA)
                node, failure = cls._tried(root, entries, found, clock)
                # What was dropped before its files were read is known by now: nothing else takes whole buckets away.
                if _catalog_of(read_entries(root / METADATA)) == _catalog_of(entries):
                    if failure is not None:
                        raise failure
                    assert node is not None
                    return node
                if node is not None:
                    node.close()
        except PermissionError as error:
            raise PermissionDeniedError(
                "the data directory may not be read; check its rights", directory=root, file=error.filename
            ) from error
        except UnavailableError:
            raise
        except OSError as error:
            raise UnavailableError(
                "the data directory cannot be read; check the disk", directory=root, cause=str(error)
            ) from error
        raise UnavailableError("tables and partitions come and go faster than they can be read; try again")

    @classmethod
    def _tried(
        cls, root: Path, entries: list[Entry], settings: Settings, clock: Clock
    ) -> tuple[ReadOnlyNode | None, PenstockError | None]:
        """Return the node, or why there is none: half of what was dropped since may be left of it."""
        try:
            return cls(root, entries, settings, clock), None
        except (CorruptionError, UnavailableError) as error:
            return None, error

    def close(self) -> None:
        """Let go of everything; idempotent."""
        if self._state.closed:
            return
        self._state.closed = True
        self._tasks.close()
        self._scan.close_all()
        self._tables.close()
        self._storage.close(flush=False)

    def _table(self, table_id: int) -> OpenTable:
        self._state.check()
        return self._tables.get(table_id)

    def _log_state(self, table_id: int, since: int) -> LogState:
        self._state.check()
        return self._tables.log_state(table_id, since)

    def _reap(self) -> None:
        self._scan.reap()
        self._cuts.reap()
        self._changes.reap()


def _check_there(root: Path) -> None:
    if root.exists() and not root.is_dir():
        raise InvalidError("the data directory is a file; name a directory", directory=root)
    if not (root / METADATA).exists():
        raise NotFoundError("no data directory there; it is made by opening it to write", directory=root)


def _stored(entries: list[Entry]) -> MemoryMetadataStore:
    store = MemoryMetadataStore()
    for start in range(0, len(entries), WRITES_MAX):
        store.commit([Put(entry.key, entry.value) for entry in entries[start : start + WRITES_MAX]])
    return store


def _catalog_of(entries: list[Entry]) -> dict[str, bytes]:
    return {entry.key: entry.value for entry in entries if entry.key.startswith(ROOT)}


_CATALOG: Final = frozenset(
    {
        "database_id",
        "check_origin",
        "list_databases",
        "list_tables",
        "table",
        "table_by_id",
        "table_as_of",
        "list_partitions",
        "buckets",
    }
)
_TABLES: Final = frozenset({"stats", "write_stream"})
# Without `open_cuts`: its tables are of one moment, and here each is of its own.
_SCAN: Final = frozenset(
    {
        "open_cut",
        "open_cut_at",
        "count",
        "first",
        "release_cut",
        "open",
        "open_some",
        "next_page",
        "pages",
        "close",
        "read_token",
        "list",
        "kill",
    }
)
_CHANGES: Final = frozenset({"offsets", "log_state", "pull"})
