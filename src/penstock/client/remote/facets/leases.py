"""Snapshots and leases of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.client.remote.calls import RemoteCalls
from penstock.model.node.lease import AcquireLease, LeaseInfo, LeaseTime, Snapshot
from penstock.model.place.bucket import TableBucket
from penstock.wire import calls as wire

_LEASES: Final = "leases"
"""The affinity of calls whose answers have a batch of what is leased."""


class RemoteLeases:
    """Snapshots and leases of a server. Implements `penstock.model.node.facets.leases.LeasesFacet`."""

    def __init__(self, calls: RemoteCalls) -> None:
        self._calls = calls

    def create_snapshot(self, table_id: int) -> list[Snapshot]:
        """Snapshot every bucket of a table at one cut; return the newest of each."""
        return self._calls.ask(wire.CREATE_SNAPSHOT, affinity=_LEASES, table_id=table_id)

    def list_snapshots(self, table_id: int) -> list[Snapshot]:
        """Return the snapshots of a table, by bucket, oldest first."""
        return self._calls.ask(wire.LIST_SNAPSHOTS, affinity=_LEASES, table_id=table_id)

    def acquire(self, call: AcquireLease) -> LeaseInfo:
        """Take a lease, or more under one that is held."""
        return self._calls.ask(wire.ACQUIRE, affinity=_LEASES, call=call)

    def renew(self, lease_id: str, duration_ms: int | None = None) -> LeaseTime:
        """Have a lease last that long from now on; None: as long as before."""
        return self._calls.ask(wire.RENEW_LEASE, lease_id=lease_id, duration_ms=duration_ms)

    def release(self, lease_id: str, buckets: Sequence[TableBucket]) -> LeaseInfo:
        """Give some buckets of a lease back."""
        return self._calls.ask(wire.RELEASE_LEASE, affinity=_LEASES, lease_id=lease_id, buckets=list(buckets))

    def drop(self, lease_id: str) -> None:
        """Give a lease back with everything that it holds."""
        self._calls.ask(wire.DROP_LEASE, lease_id=lease_id)

    def list(self) -> list[LeaseInfo]:
        """Return all leases."""
        return self._calls.ask(wire.LIST_LEASES, affinity=_LEASES)

    def get(self, lease_id: str) -> LeaseInfo:
        """Return a lease."""
        return self._calls.ask(wire.LEASE, affinity=_LEASES, lease_id=lease_id)

    def kept_bytes(self, lease_id: str) -> int:
        """Return the size of the files that are kept only for a lease."""
        return self._calls.ask(wire.LEASE_BYTES, lease_id=lease_id)
