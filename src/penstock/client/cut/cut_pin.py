"""The pin under a scan: one cut at the node, taken again if the node has forgotten it, or one that a lease keeps."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from penstock.client.link.link import Link
from penstock.errors import PenstockError
from penstock.model.node.calls import Cut
from penstock.model.place.bucket import TableBucket


class CutPin:
    """Keeps a cut readable until released. Thread-safe. A cut without an id needs no pin: all of it was read."""

    def __init__(self, link: Link, table_id: int, cut: Cut) -> None:
        self._link = link
        self._table_id = table_id
        self._cut = cut
        self.births = cut.births
        self.schema_id = cut.schema_id
        """The table's schema when the cut was taken."""
        self._lock = threading.Lock()

    @classmethod
    def take(
        cls,
        link: Link,
        table_id: int,
        *,
        as_of: Mapping[TableBucket, int] | None = None,
        timestamp_ms: int | None = None,
        buckets: tuple[TableBucket, ...] | None = None,
    ) -> CutPin:
        """Pin the present cut of the buckets (None: all), the one given, or that of a moment.

        Raises:
            OffsetOutOfRangeError: `as_of` is older than what is kept, or not yet written.
            TableNotFoundError: the table was dropped.
        """
        if buckets == ():
            return cls(link, table_id, Cut("", {}))
        if timestamp_ms is not None:
            moment = timestamp_ms
            at = link.retry.run(lambda: link.node.scan.open_cut_at(table_id, moment, buckets=buckets))
            return cls(link, table_id, at)
        return cls(
            link, table_id, link.retry.run(lambda: link.node.scan.open_cut(table_id, as_of=as_of, buckets=buckets))
        )

    @property
    def offsets(self) -> Mapping[TableBucket, int]:
        """Return the cut: an offset for each bucket."""
        return self._cut.offsets

    @property
    def cut_id(self) -> str | None:
        """Return the id under which the node knows the cut now, None if it does not."""
        return self._cut.cut_id or None

    def log_starts(self) -> dict[TableBucket, int]:
        """Return the first change of each bucket that is kept. Later than the cut: all its buckets are known by then.

        Raises:
            PartitionNotFoundError: a bucket went with its partition.
        """
        state = self._link.retry.run(lambda: self._link.node.changes.log_state(self._table_id))
        return {bucket: state.first_kept(bucket, offset) for bucket, offset in self.offsets.items()}

    def renew(self) -> None:
        """Pin the same cut again.

        Raises:
            OffsetOutOfRangeError: it can no longer be read.
        """
        with self._lock:
            before, offsets = self._cut, dict(self._cut.offsets)
            self._cut = self._link.reading_retry.run(
                lambda: self._link.node.scan.open_cut(self._table_id, as_of=offsets, buckets=tuple(offsets))
            )
        # It may be that only the session was lost; then the node still knows the cut of before.
        self._release(before)

    def release(self) -> None:
        """Let go of the cut; idempotent. The node is told once."""
        # Without the lock: garbage collection may release a forgotten scan on the thread that renews its pin.
        cut, self._cut = self._cut, Cut("", self._cut.offsets)
        self._release(cut)

    def _release(self, cut: Cut) -> None:
        if self._link.closed or not cut.cut_id:
            return
        try:
            self._link.node.scan.release_cut(cut.cut_id)
        except PenstockError:
            # A pin that cannot be released now expires by itself.
            return


class LeasePin:
    """Stands where a `CutPin` does while a lease protects the cut: the lease holder renews it and gives it back."""

    cut_id: None = None
    births: None = None

    def __init__(self, link: Link, table_id: int, lease_id: str, offsets: Mapping[TableBucket, int]) -> None:
        self._link = link
        self._table_id = table_id
        self._lease_id = lease_id
        self.offsets = offsets

    def log_starts(self) -> dict[TableBucket, int]:
        """Return the first change of each bucket that is kept, which may be older than what the lease needs.

        Raises:
            LeaseNotFoundError: the lease is unknown or has expired.
        """
        link = self._link
        kept = link.retry.run(lambda: link.node.changes.offsets(self._table_id, lease_id=self._lease_id))
        return {bucket: offsets.base for bucket, offsets in kept.items()}

    def renew(self) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Do nothing."""
