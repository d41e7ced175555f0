"""The parts of leases, wired: what readers, callers and the background each need of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.leases.claims import LeaseClaims
from penstock.engine.leases.lease_bytes import LeaseBytes
from penstock.engine.leases.lease_upkeep import LeaseUpkeep
from penstock.engine.leases.leased_buckets import LeasedBuckets
from penstock.engine.leases.leases import Leases
from penstock.engine.leases.reclaim import Reclaim
from penstock.engine.leases.service import LeaseService
from penstock.engine.leases.snapshots import Snapshots
from penstock.engine.leases.store import Lease, LeaseStore
from penstock.engine.settings import Settings
from penstock.engine.table.lease_pins import LeasePins
from penstock.engine.table.open_tables import OpenTables
from penstock.engine.upkeep.maintenance import FlushIndex, Maintenance
from penstock.runtime.clock import Clock
from penstock.runtime.metrics import Metrics


@dataclass(frozen=True, slots=True)
class LeaseRoom:
    """The service for callers, the buckets for readers, the claims for backups, the background work."""

    service: LeaseService
    buckets: LeasedBuckets
    claims: LeaseClaims
    upkeep: LeaseUpkeep

    @classmethod
    def open(
        cls,
        loaded: Iterable[Lease],
        store: LeaseStore,
        lease_pins: LeasePins,
        tables: OpenTables,
        *,
        catalog: Catalog,
        maintenance: Maintenance,
        settings: Settings,
        clock: Clock,
        metrics: Metrics,
        flush_index: FlushIndex,
        kick: Callable[[], None],
        principal: str,
    ) -> LeaseRoom:
        """Go on with the leases that were loaded; `kick` wakes the background when something can be freed."""
        snapshots = Snapshots(tables, settings, clock, maintenance, flush_index=flush_index)
        reclaim = Reclaim(tables, snapshots, maintenance, kick)
        claims = LeaseClaims(tables, catalog, lease_pins, snapshots, clock)
        leases = Leases(loaded, store, lease_pins, claims, settings=settings, clock=clock, freed=reclaim.add)
        sizes = LeaseBytes(tables, catalog, lease_pins, snapshots)
        service = LeaseService(
            leases,
            store,
            lease_pins,
            tables,
            catalog=catalog,
            claims=claims,
            snapshots=snapshots,
            sizes=sizes,
            principal=principal,
        )
        upkeep = LeaseUpkeep(leases, claims, snapshots, reclaim, sizes, clock=clock, metrics=metrics)
        return cls(service, LeasedBuckets(leases, tables, catalog), claims, upkeep)
