"""The size of the files that are kept only for a lease."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.leases.snapshots import Snapshots
from penstock.engine.leases.store import Lease
from penstock.engine.table.lease_pins import LeasePins
from penstock.engine.table.open_tables import OpenTables
from penstock.model.place.bucket import BucketId
from penstock.tablet.tablet import Tablet


class LeaseBytes:
    """Measures leases. Thread-safe: keeps nothing of its own."""

    def __init__(self, tables: OpenTables, catalog: Catalog, lease_pins: LeasePins, snapshots: Snapshots) -> None:
        self._tables = tables
        self._catalog = catalog
        self._lease_pins = lease_pins
        self._snapshots = snapshots

    def of(self, lease: Lease, find: Callable[[BucketId], Tablet | None]) -> int:
        """Return the bytes of a lease in the buckets that `find` finds."""
        total, dropped = 0, set(self._catalog.dropped())
        for bucket in lease.holds:
            tablet = find(bucket)
            if tablet is None:
                continue
            table = self._tables.opened(bucket.table_id)
            if table is not None and bucket.table_id not in dropped and table.dropped.tablet(bucket) is None:
                total += tablet.snapshots.kept_bytes(lease.holder, self._snapshots.retained(table))
            elif len(self._lease_pins.of(bucket)) == 1:
                # All of it is there for this lease.
                total += tablet.files.size_bytes()
        return total
