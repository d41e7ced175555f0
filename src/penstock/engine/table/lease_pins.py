"""The pins of leases: which lease holds which bucket at which offset, for buckets opened at any time.

A bucket may be opened late, given up and taken up again, or reopened after a failure: each time it
is protected again before any caller sees it. Holding changes this table first and the bucket then,
so that no bucket is ever open without the pins that this table names.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping

from penstock.codec.stored.lease_record import Hold
from penstock.errors import CorruptionError, OffsetOutOfRangeError, SnapshotNotFoundError, UnsupportedError
from penstock.model.place.bucket import BucketId
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.pins import PinHolder

_log = logging.getLogger("penstock")


class LeasePins:
    """Holders by bucket. Thread-safe by one lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holds: dict[BucketId, dict[PinHolder, Hold]] = {}
        self._partitions: Counter[tuple[int, int]] = Counter()
        self._tables: Counter[int] = Counter()

    def note(self, holder: PinHolder, holds: Mapping[BucketId, Hold]) -> None:
        """Remember what a holder holds; buckets that are opened from now on are protected."""
        with self._lock:
            for bucket, hold in holds.items():
                holders = self._holds.setdefault(bucket, {})
                if not holders:
                    self._partitions[bucket.table_id, bucket.partition_id] += 1
                    self._tables[bucket.table_id] += 1
                holders[holder] = hold

    def forget(self, holder: PinHolder, buckets: Iterable[BucketId]) -> None:
        """Remember a holder no more; idempotent."""
        with self._lock:
            for bucket in buckets:
                holders = self._holds.get(bucket)
                if holders is not None and holders.pop(holder, None) is not None and not holders:
                    del self._holds[bucket]
                    self._partitions[bucket.table_id, bucket.partition_id] -= 1
                    self._tables[bucket.table_id] -= 1

    def of(self, bucket: BucketId) -> dict[PinHolder, Hold]:
        """Return who holds a bucket."""
        with self._lock:
            return dict(self._holds.get(bucket, {}))

    def sharing(self, holds: Mapping[BucketId, Hold]) -> dict[BucketId, list[PinHolder]]:
        """Return for each bucket who holds the same of it: number and offset are the same."""
        with self._lock:
            return {
                bucket: [holder for holder, other in self._holds.get(bucket, {}).items() if other[:2] == hold[:2]]
                for bucket, hold in holds.items()
            }

    def has(self, table_id: int, partition_id: int | None = None) -> bool:
        """Tell whether a lease holds a bucket of a table, or of one partition of it."""
        with self._lock:
            if partition_id is None:
                return self._tables[table_id] > 0
            return self._partitions[table_id, partition_id] > 0

    def protect(self, tablet: Tablet) -> None:
        """Pin in a bucket that was just opened all that is held in it."""
        for holder, hold in self.of(tablet.bucket).items():
            try:
                pin(tablet, holder, hold, least=tablet.kept_from)
            except OffsetOutOfRangeError as error:
                _log.error("what a lease holds is gone holder=%s bucket=%s reason=%s", holder, tablet.bucket, error)
            except (SnapshotNotFoundError, CorruptionError, UnsupportedError) as error:
                _log.error("a leased snapshot can be read through the node only holder=%s reason=%s", holder, error)


def pin(tablet: Tablet, holder: PinHolder, hold: Hold, *, least: int | None = None) -> None:
    """Pin in an open bucket what is held.

    Raises:
        OffsetOutOfRangeError: the base has passed it.
        SnapshotNotFoundError: the snapshot is gone; its offset is pinned nevertheless.
        CorruptionError, UnsupportedError: it cannot be read; its offset is pinned nevertheless.
    """
    tablet.pins.pin(holder, hold.pin, least=least)
    if hold.snapshot_id:
        tablet.snapshots.hold(hold.snapshot_id, holder)


def unpin(tablet: Tablet, holder: PinHolder, hold: Hold) -> None:
    """Let go in an open bucket; idempotent."""
    if hold.snapshot_id:
        tablet.snapshots.release(hold.snapshot_id, holder)
    tablet.pins.unpin(holder)
