"""The calls of a node about snapshots and leases, and about the log, which a lease may keep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.codec.stored.backup_inventory import BackupInventory
from penstock.engine.backup.backup import Backup
from penstock.engine.changes.reader import ChangeReader
from penstock.engine.leases.service import LeaseDesk
from penstock.engine.scan.cuts import Cuts
from penstock.engine.table.open_table import LiveTable
from penstock.engine.table.open_tables import OpenTables
from penstock.errors import ClosedError
from penstock.model.node.calls import ChangePage, Offsets, PullChanges
from penstock.model.node.lease import AcquireLease, LeaseInfo, LeaseTime, Snapshot
from penstock.model.node.log_state import LogState
from penstock.model.place.bucket import TableBucket
from penstock.runtime.directory_lock import DirectoryLock


class LeaseCalls:
    """What an engine answers about snapshots, leases and the log: that part of `penstock.model.node.node.Node`."""

    leases: LeaseDesk
    _backup: Backup
    _cuts: Cuts
    _changes: ChangeReader
    _tables: OpenTables
    _closed: bool
    _lock: DirectoryLock | None

    def backup(self, directory: str | Path) -> BackupInventory:
        """Write a backup of all tables, each at one cut, into a directory that is empty or not there."""
        return self._backup.write(Path(directory), self._cuts)

    def create_snapshot(self, table_id: int) -> list[Snapshot]:
        """Snapshot every bucket of a table at one cut; return the newest of each."""
        return self.leases.create_snapshot(table_id)

    def list_snapshots(self, table_id: int) -> list[Snapshot]:
        """Return the snapshots of a table, by bucket, oldest first."""
        return self.leases.list_snapshots(table_id)

    def acquire_lease(self, call: AcquireLease) -> LeaseInfo:
        """Take a lease, or more under one that is held."""
        return self.leases.acquire(call)

    def renew_lease(self, lease_id: str, duration_ms: int | None = None) -> LeaseTime:
        """Have a lease last that long from now on; None: as long as before."""
        return self.leases.renew(lease_id, duration_ms)

    def release_lease(self, lease_id: str, buckets: Sequence[TableBucket]) -> LeaseInfo:
        """Give some buckets of a lease back."""
        return self.leases.release(lease_id, buckets)

    def drop_lease(self, lease_id: str) -> None:
        """Give a lease back with everything that it holds."""
        self.leases.drop(lease_id)

    def list_leases(self) -> list[LeaseInfo]:
        """Return all leases."""
        return self.leases.list()

    def lease(self, lease_id: str) -> LeaseInfo:
        """Return a lease."""
        return self.leases.get(lease_id)

    def lease_bytes(self, lease_id: str) -> int:
        """Return the size of the files that are kept only for a lease."""
        return self.leases.kept_bytes(lease_id)

    def offsets(
        self, table_id: int, *, timestamp_ms: int | None = None, lease_id: str | None = None
    ) -> dict[TableBucket, Offsets]:
        """Return base and end of every bucket; with a timestamp, base = the first change at or after it.

        With a lease, of every bucket that it holds, up to the offset that it holds.
        """
        if lease_id is not None:
            return self.leases.offsets(lease_id, table_id, timestamp_ms)
        return self._changes.offsets(self._table(table_id), timestamp_ms)

    def log_state(self, table_id: int, *, since: int = 0) -> LogState:
        """Return base and end of every bucket, and of what went with dropped partitions from an id on."""
        self._check_open()
        return self._tables.log_state(table_id, since)

    def pull_changes(self, call: PullChanges) -> list[ChangePage]:
        """Return changes of the buckets that have some; empty when the wait ran out."""
        if call.lease_id is not None and call.positions:
            held = {
                name: self.leases.find(call.lease_id, call.table_id, name, start)
                for name, (start, _) in call.positions.items()
            }
            table = next(iter(held.values()))[0]
            return self._changes.pull(table, call, {name: bucket for name, (_, bucket) in held.items()})
        return self._changes.pull(self._table(call.table_id), call)

    def _table(self, table_id: int) -> LiveTable:
        self._check_open()
        return self._tables.get(table_id)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the node is closed")
        if self._lock is not None:
            self._lock.check_in_place()
