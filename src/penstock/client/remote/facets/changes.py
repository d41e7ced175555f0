"""The change logs of a server."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.remote.calls import RemoteCalls
from penstock.model.node.calls import (
    ChangePage,
    Offsets,
    PullChanges,
)
from penstock.model.node.log_state import LogState
from penstock.model.place.bucket import TableBucket
from penstock.wire import calls as wire


class RemoteChanges:
    """The change logs of a server. Implements `penstock.model.node.facets.changes.ChangesFacet`."""

    def __init__(self, calls: RemoteCalls) -> None:
        self._calls = calls

    def offsets(
        self, table_id: int, *, timestamp_ms: int | None = None, lease_id: str | None = None
    ) -> dict[TableBucket, Offsets]:
        """Return base and end of every bucket; with a timestamp, base = the first change at or after it."""
        found: Mapping[TableBucket, Offsets] = self._calls.ask(
            wire.OFFSETS, table_id=table_id, timestamp_ms=timestamp_ms, lease_id=lease_id
        )
        return dict(found)

    def log_state(self, table_id: int, *, since: int = 0) -> LogState:
        """Return base and end of every bucket, and of what went with dropped partitions from an id on."""
        return self._calls.ask(wire.LOG_STATE, table_id=table_id, since=since)

    def pull(self, call: PullChanges) -> list[ChangePage]:
        """Return changes of the buckets that have some; empty when the wait ran out."""
        affinity = ("changes", call.table_id, call.schema_id, call.columns, call.images)
        return self._calls.ask(wire.PULL, wait_ms=call.wait_ms, affinity=affinity, call=call)
