"""Snapshots and leases of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.model.node.lease import AcquireLease, LeaseInfo, LeaseTime, Snapshot
from penstock.model.place.bucket import TableBucket


class LeasesFacet(Protocol):
    """Snapshots and leases of a node. Thread-safe."""

    def create_snapshot(self, table_id: int) -> list[Snapshot]:
        """Snapshot every bucket of a table at one cut; return the newest of each."""

    def list_snapshots(self, table_id: int) -> list[Snapshot]:
        """Return the snapshots of a table, by bucket, oldest first."""

    def acquire(self, call: AcquireLease) -> LeaseInfo:
        """Take a lease, or more under one that is held."""

    def renew(self, lease_id: str, duration_ms: int | None = None) -> LeaseTime:
        """Have a lease last that long from now on; None: as long as before."""

    def release(self, lease_id: str, buckets: Sequence[TableBucket]) -> LeaseInfo:
        """Give some buckets of a lease back."""

    def drop(self, lease_id: str) -> None:
        """Give a lease back with everything that it holds."""

    def list(self) -> list[LeaseInfo]:
        """Return all leases."""

    def get(self, lease_id: str) -> LeaseInfo:
        """Return a lease."""

    def kept_bytes(self, lease_id: str) -> int:
        """Return the size of the files that are kept only for a lease."""
