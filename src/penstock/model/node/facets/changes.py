"""The change logs of a node."""

from __future__ import annotations

from typing import Protocol

from penstock.model.node.calls import (
    ChangePage,
    Offsets,
    PullChanges,
)
from penstock.model.node.log_state import LogState
from penstock.model.place.bucket import TableBucket


class ChangesFacet(Protocol):
    """The change logs of a node. Thread-safe."""

    def offsets(
        self, table_id: int, *, timestamp_ms: int | None = None, lease_id: str | None = None
    ) -> dict[TableBucket, Offsets]:
        """Return base and end of every bucket; with a timestamp, base = the first change at or after it.

        With a lease, of every bucket that it holds, also of a dropped table, up to the offset that it holds.
        """

    def log_state(self, table_id: int, *, since: int = 0) -> LogState:
        """Return base and end of every bucket, and of what went with dropped partitions from an id on."""

    def pull(self, call: PullChanges) -> list[ChangePage]:
        """Return changes of the buckets that have some; empty when the wait ran out."""
