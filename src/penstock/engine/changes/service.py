"""The change logs as a node offers them: of tables, and of what a lease holds of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.engine.changes.reader import ChangeReader
from penstock.engine.table.open_table import OpenTable
from penstock.model.node.calls import ChangePage, Offsets, PullChanges
from penstock.model.node.log_state import LogState
from penstock.model.node.principal import ActsForPrincipal
from penstock.model.place.bucket import BucketId, TableBucket


class LeasedLogs(Protocol):
    """The logs that leases hold, also those of dropped tables."""

    def find(
        self, lease_id: str, table_id: int, name: TableBucket, offset: int | None = None, *, principal: str
    ) -> tuple[OpenTable, BucketId]:
        """Return a bucket that a lease of a principal holds."""

    def offsets(
        self, lease_id: str, table_id: int, timestamp_ms: int | None = None, *, principal: str
    ) -> dict[TableBucket, Offsets]:
        """Return base and leased offset of every bucket of a table that a lease of a principal holds."""


class ChangesService(ActsForPrincipal):
    """Answers calls about change logs; implements `penstock.model.node.facets.changes.ChangesFacet`.

    Thread-safe: what changes is in the reader, which is.
    """

    def __init__(
        self,
        reader: ChangeReader,
        tables: Callable[[int], OpenTable],
        log_state: Callable[[int, int], LogState],
        leased: LeasedLogs,
        *,
        principal: str,
    ) -> None:
        super().__init__(principal)
        self._reader = reader
        self._tables = tables
        self._log_state = log_state
        self._leased = leased

    def offsets(
        self, table_id: int, *, timestamp_ms: int | None = None, lease_id: str | None = None
    ) -> dict[TableBucket, Offsets]:
        """Return base and end of every bucket; with a timestamp, base = the first change at or after it.

        With a lease, of every bucket that it holds, up to the offset that it holds.
        """
        if lease_id is not None:
            return self._leased.offsets(lease_id, table_id, timestamp_ms, principal=self._principal)
        return self._reader.offsets(self._tables(table_id), timestamp_ms)

    def log_state(self, table_id: int, *, since: int = 0) -> LogState:
        """Return base and end of every bucket, and of what went with dropped partitions from an id on."""
        return self._log_state(table_id, since)

    def pull(self, call: PullChanges) -> list[ChangePage]:
        """Return changes of the buckets that have some; empty when the wait ran out."""
        if call.lease_id is None or not call.positions:
            return self._reader.pull(self._tables(call.table_id), call, principal=self._principal)
        held = {
            name: self._leased.find(call.lease_id, call.table_id, name, start, principal=self._principal)
            for name, (start, _) in call.positions.items()
        }
        table = next(iter(held.values()))[0]
        buckets = {name: bucket for name, (_, bucket) in held.items()}
        return self._reader.pull(table, call, buckets, principal=self._principal)
