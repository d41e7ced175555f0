"""Dropped buckets: those of dropped partitions that a reader or a lease still holds. Only their holders find them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress

from penstock.errors import BucketFailedError
from penstock.model.place.bucket import BucketId, TableBucket, life_start
from penstock.tablet.tablet import Tablet


class DroppedBuckets:
    """The buckets of one table that its view has no more. Thread-safe by one lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tablets: dict[BucketId, tuple[Tablet, TableBucket]] = {}

    def add(self, tablets: Mapping[TableBucket, Tablet]) -> None:
        """Take buckets that left the view; they take no more writes."""
        for name, tablet in tablets.items():
            # One that failed has shown all that it will ever show.
            with suppress(BucketFailedError):
                tablet.close()
            with self._lock:
                self._tablets[tablet.bucket] = (tablet, name)

    def tablet(self, bucket: BucketId) -> Tablet | None:
        """Return a bucket, None if it is not here."""
        found = self._tablets.get(bucket)
        return None if found is None else found[0]

    def name(self, bucket: BucketId) -> TableBucket | None:
        """Return how users named the bucket, None if it is not here."""
        found = self._tablets.get(bucket)
        return None if found is None else found[1]

    def find(self, name: TableBucket, offset: int) -> Tablet | None:
        """Return the bucket of that name whose log had an offset, None if it is not here."""
        with self._lock:
            held = [tablet for tablet, known in self._tablets.values() if known == name]
        return next((t for t in held if life_start(t.view.visible) == life_start(offset)), None)

    def tablets(self) -> list[Tablet]:
        """Return all of them."""
        with self._lock:
            return [tablet for tablet, _ in self._tablets.values()]

    def remove(self, partition_id: int) -> None:
        """Let go of a partition whose files are about to be removed."""
        with self._lock:
            gone = [bucket for bucket in self._tablets if bucket.partition_id == partition_id]
            for bucket in gone:
                self._tablets.pop(bucket)[0].abandon()
