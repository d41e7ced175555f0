"""The calls of a node about snapshots and leases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.codec.backup_inventory import BackupInventory
from penstock.engine.cuts import Cuts
from penstock.engine.lease_desk import LeaseDesk
from penstock.engine.metadata import MetadataStore
from penstock.model.bucket import TableBucket
from penstock.model.lease import AcquireLease, LeaseInfo, Snapshot


class LeaseCalls:
    """What an engine answers about snapshots and leases; the part of `penstock.model.node.Node` that is theirs."""

    leases: LeaseDesk
    _metadata: MetadataStore
    _cuts: Cuts

    def backup(self, directory: str | Path) -> BackupInventory:
        """Write a backup of all tables, each at one cut, into a directory that is empty or not there."""
        return self.leases.backup(Path(directory), self._metadata, self._cuts)

    def create_snapshot(self, table_id: int) -> list[Snapshot]:
        """Snapshot every bucket of a table at one cut; return the newest of each."""
        return self.leases.create_snapshot(table_id)

    def list_snapshots(self, table_id: int) -> list[Snapshot]:
        """Return the snapshots of a table, by bucket, oldest first."""
        return self.leases.list_snapshots(table_id)

    def acquire_lease(self, call: AcquireLease) -> LeaseInfo:
        """Take a lease, or more under one that is held."""
        return self.leases.acquire(call)

    def renew_lease(self, lease_id: str, duration_ms: int | None = None) -> LeaseInfo:
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
