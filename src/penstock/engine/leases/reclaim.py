"""The reclaiming of space that is held no more: at once, also where nothing is written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from penstock.engine.leases.snapshots import Snapshots
from penstock.engine.table.open_tables import OpenTables
from penstock.engine.upkeep.maintenance import Maintenance
from penstock.errors import NotFoundError
from penstock.model.place.bucket import BucketId


class Reclaim:
    """Buckets in which something was let go, and the work that follows. Thread-safe by one lock."""

    def __init__(
        self, tables: OpenTables, snapshots: Snapshots, maintenance: Maintenance, kick: Callable[[], None]
    ) -> None:
        """`kick` has `run` called soon."""
        self._tables = tables
        self._snapshots = snapshots
        self._maintenance = maintenance
        self._lock = threading.Lock()
        self._buckets: set[BucketId] = set()
        self._kick = kick

    def add(self, buckets: Collection[BucketId]) -> None:
        """Have these buckets looked at soon."""
        if buckets:
            with self._lock:
                self._buckets.update(buckets)
            self._kick()

    def run(self) -> None:
        """Remove and compact what the buckets named since need no more."""
        with self._lock:
            buckets, self._buckets = sorted(self._buckets), set()
        self._tables.finish_drops()
        for bucket in buckets:
            try:
                table = self._tables.get(bucket.table_id)
            except NotFoundError:
                continue
            tablet = table.committer.tablets.get(bucket)
            if tablet is not None:
                self._snapshots.prune(table, tablet)
                self._maintenance.free(table, tablet)
