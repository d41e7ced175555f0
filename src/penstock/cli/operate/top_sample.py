"""What `penstock top` shows: the figures of every table at one moment."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cli.commands.lease import kept_bytes
from penstock.errors import TableNotFoundError

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.client.leases.lease import Lease
    from penstock.model.node.calls import ScannerInfo
    from penstock.model.node.owner import OwnerInfo


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of every table at one moment."""

    seconds: float
    tables: dict[str, dict[str, Any]]
    scanners: tuple[ScannerInfo, ...] = ()
    leases: tuple[tuple[Lease, int | None], ...] = ()
    owners: tuple[OwnerInfo, ...] = ()

    def rates_since(self, earlier: Sample | None) -> list[dict[str, Any]]:
        """Return the figures with the changes a second since an earlier sample; none before there was one."""
        records = []
        for path, figures in self.tables.items():
            before = None if earlier is None else earlier.tables.get(path)
            rate = None
            if earlier is not None and before is not None:
                rate = (figures["changes"] - before["changes"]) / max(self.seconds - earlier.seconds, 0.001)
            records.append(figures | {"table": path, "changes_per_s": rate})
        return records


def take_sample(connection: Connection) -> Sample:
    """Look at every table once."""
    sessions = connection.list_scanners()
    leases, owners = connection.list_leases(), connection.list_owners()
    tables: dict[str, dict[str, Any]] = {}
    for database in connection.list_databases():
        for name in connection.list_tables(database):
            path = f"{database}.{name}"
            try:
                stats = connection.table(path).stats()
            except TableNotFoundError:
                # Dropped since it was listed.
                continue
            tables[path] = {
                "rows": stats.live_rows,
                "bytes": stats.bytes,
                "buckets": len(stats.buckets),
                "changes": sum(found.visible - found.bucket.first_offset(found.visible) for found in stats.buckets),
                "scanners": sum(session.bucket.table == path for session in sessions),
                "pins": sum(len(bucket.pins) for bucket in stats.buckets),
                "leases": sum(any(held.table == path for held in lease.snapshots) for lease in leases),
                "rows_pending": sum(owner.rows_pending for owner in owners if owner.table == path),
            }
    kept = tuple((lease, kept_bytes(lease)) for lease in leases)
    return Sample(time.monotonic(), tables, tuple(sessions), kept, tuple(owners))
