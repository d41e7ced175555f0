"""The lease of a stream: it keeps the snapshot readable until it was read, and with `retain` the log after that.

Its id stands in the checkpoint, so a restarted query goes on with the same lease. Nothing of ours lives as
long as the query: it is renewed as micro-batches pass, and left to expire.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Final

from penstock.client.link.link import Link
from penstock.errors import LeaseNotFoundError
from penstock.model.node.lease import AcquireLease, CutOffsets
from penstock.model.place.bucket import TableBucket

_log = logging.getLogger("penstock.spark")
SNAPSHOT_MS: Final = 3_600_000
RENEW_SECONDS: Final = 10.0


class StreamLease:
    """Takes, moves and drops the lease of one stream. `retain_ms` None: only for the snapshot."""

    def __init__(self, link: Link, table_id: int, retain_ms: int | None) -> None:
        self._link = link
        self._table_id = table_id
        self._retain_ms = retain_ms
        self._touched = -RENEW_SECONDS

    @property
    def keeps_log(self) -> bool:
        """Tell whether the log is kept for a stopped query."""
        return self._retain_ms is not None

    def take(self, offsets: Mapping[TableBucket, int]) -> str:
        """Hold a cut under a new lease; return its id.

        Raises:
            LimitError: `retain` is longer than the server allows.
        """
        lease_id = f"spark-{uuid.uuid4().hex}"
        self._hold(lease_id, offsets)
        return lease_id

    def move(self, lease_id: str, offsets: Mapping[TableBucket, int]) -> None:
        """Hold this cut under the lease instead, and for its whole time again; not more often than is of use."""
        if self._link.monotonic() - self._touched >= RENEW_SECONDS:
            self._hold(lease_id, offsets)

    def drop(self, lease_id: str) -> None:
        """Give the lease back; idempotent."""
        try:
            self._link.retry.run(lambda: self._link.node.leases.drop(lease_id))
        except LeaseNotFoundError:
            return

    def _hold(self, lease_id: str, offsets: Mapping[TableBucket, int]) -> None:
        call = AcquireLease(
            lease_id, max(self._retain_ms or 0, SNAPSHOT_MS), cuts=(CutOffsets(self._table_id, dict(offsets)),)
        )
        info = self._link.retry.run(lambda: self._link.node.leases.acquire(call))
        for bucket, reason in info.unavailable.items():
            _log.warning("the log of a bucket cannot be kept bucket=%s reason=%s", bucket, reason)
        self._touched = self._link.monotonic()
