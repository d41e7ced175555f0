"""Background work on leases: expiry, snapshots that are due, freeing what no lease holds, gauges."""

from __future__ import annotations

from typing import Final

from penstock.engine.leases.claims import LeaseClaims
from penstock.engine.leases.lease_bytes import LeaseBytes
from penstock.engine.leases.leases import Leases
from penstock.engine.leases.reclaim import Reclaim
from penstock.engine.leases.snapshots import Snapshots
from penstock.runtime.clock import Clock
from penstock.runtime.metrics import Metrics

OBSERVE_INTERVAL_MS: Final = 10_000


class LeaseUpkeep:
    """Works on the leases of a node in the background; for one thread."""

    def __init__(
        self,
        leases: Leases,
        claims: LeaseClaims,
        snapshots: Snapshots,
        reclaim: Reclaim,
        sizes: LeaseBytes,
        *,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._leases = leases
        self._claims = claims
        self._snapshots = snapshots
        self._reclaim = reclaim
        self._sizes = sizes
        self._clock = clock
        self._gauges = {
            name: metrics.gauge(f"penstock_{name}")
            for name in ("leases", "leased_buckets", "leased_snapshots", "leased_bytes", "lease_oldest_age_seconds")
        }
        self._observed_ms = clock.monotonic_ms() - OBSERVE_INTERVAL_MS

    def run(self) -> None:
        """End what has expired, take the snapshots that are due, free what is held no more; to be called often."""
        self._leases.expire()
        self._reclaim.run()
        self._snapshots.run()
        self._observe()

    def _observe(self) -> None:
        """Set the gauges, now and then."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._observed_ms < OBSERVE_INTERVAL_MS:
            return
        self._observed_ms = now_ms
        leases = self._leases.all()
        pinned = {(b, hold.snapshot_id) for lease in leases for b, hold in lease.holds.items() if hold.snapshot_id}
        oldest_ms = min((lease.created_ms for lease in leases), default=None)
        self._gauges["leases"].set(len(leases))
        self._gauges["leased_buckets"].set(len({bucket for lease in leases for bucket in lease.holds}))
        self._gauges["leased_snapshots"].set(len(pinned))
        # Of what is open: to open the rest only to measure it would cost more than anything else here.
        measured = sum(self._sizes.of(lease, dict(self._claims.opened(lease.holds)).get) for lease in leases)
        self._gauges["leased_bytes"].set(measured)
        age_ms = 0 if oldest_ms is None else max(0, self._clock.wall_ms() - oldest_ms)
        self._gauges["lease_oldest_age_seconds"].set(age_ms / 1000)
