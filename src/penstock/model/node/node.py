"""What a node offers. The embedded engine is one; a connection to a server is another.

Everything a user sees is built on these calls, so that both behave the same. Every call raises
only errors of `penstock.errors`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from penstock.model.node.calls import (
    ChangePage,
    Cut,
    LookupCall,
    LookupResult,
    Offsets,
    OpenScan,
    Page,
    PullChanges,
    ScannerInfo,
    TableStats,
    WriteCall,
    WriteResult,
)
from penstock.model.node.lease import AcquireLease, LeaseInfo, LeaseTime, Snapshot
from penstock.model.node.log_state import LogState
from penstock.model.node.owner_node import OwnerNode
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.aggregate import AggFunction
from penstock.model.table.table import TableInfo, TableSpec


class Writes(Protocol):
    """Writes under way, each sent before the ones ahead of it were answered, and done only if they succeed."""

    def send(self, call: WriteCall) -> None:
        """Send a write."""

    def result(self) -> WriteResult:
        """Wait for the answer to the oldest write that has none."""

    def close(self) -> None:
        """Wait for no more answers; idempotent."""


class Node(OwnerNode, Protocol):
    """A whole node, from a client's side. Thread-safe."""

    def database_id(self) -> str:
        """Return the id of the database, which no other has."""

    def check_origin(
        self, database: str, table_id: int, offsets: Mapping[TableBucket, int], births: int | None = None
    ) -> None:
        """Refuse a place in a table unless it is of this database, or of what it has of one it was restored from."""

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a database."""

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop a database; with tables in it only if `cascade`."""

    def create_table(self, path: str, spec: TableSpec, *, if_not_exists: bool = False) -> TableInfo:
        """Create a table."""

    def table(self, path: str) -> TableInfo:
        """Return the table of that path as it is now."""

    def table_by_id(self, table_id: int) -> TableInfo:
        """Return the table of that id as it is now."""

    def list_tables(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted."""

    def drop_table(self, path: str, *, if_exists: bool = False) -> None:
        """Drop a table."""

    def add_column(self, table_id: int, name: str, type: pa.DataType, agg: AggFunction | None = None) -> TableInfo:
        """Add a nullable column; rows written before read null."""

    def list_partitions(self, table_id: int) -> list[str]:
        """Return the partition names of a table, sorted."""

    def create_partition(self, table_id: int, values: Mapping[str, object], *, if_not_exists: bool = False) -> str:
        """Create a partition; return its name."""

    def drop_partition(self, table_id: int, values: Mapping[str, object], *, if_exists: bool = False) -> None:
        """Drop a partition with its rows."""

    def buckets(self, table_id: int) -> list[TableBucket]:
        """Return every bucket of the table, of every partition, sorted."""

    def write(self, call: WriteCall) -> WriteResult:
        """Apply a write; return when it is durable and visible."""

    def write_stream(self) -> Writes | None:
        """Return a way to send writes ahead; None where that gains nothing."""

    def delete_where(self, table_id: int, filter: bytes, writer_id: bytes, sequence: int) -> WriteResult:
        """Delete the rows that match a serialised filter, as of one cut."""

    def truncate(self, table_id: int) -> WriteResult:
        """Delete all rows, in the changelog."""

    def open_cut(
        self,
        table_id: int,
        *,
        as_of: Mapping[TableBucket, int] | None = None,
        buckets: Sequence[TableBucket] | None = None,
    ) -> Cut:
        """Take and pin the present cut, or pin the one given."""

    def release_cut(self, cut_id: str) -> None:
        """Unpin a cut; idempotent."""

    def named_cut(self, table_id: int, name: str, ttl_ms: int) -> Cut:
        """Return the cut of that name, which the first to ask fixes; kept for `ttl_ms` after the last to ask."""

    def open_scanner(self, call: OpenScan) -> Page:
        """Open a scan session and return its first page (call 0)."""

    def open_scanners(self, calls: Sequence[OpenScan]) -> list[Page]:
        """Open scan sessions one after the other and return their first pages: of the first call, or of more.

        It ends with the first page that has more, so all but that one are done.
        """

    def next_page(self, scanner_id: str, call_seq_id: int) -> Page:
        """Return the page of that call number: the next one, or the latest again."""

    def pages(self, scanner_id: str, call_seq_id: int) -> Generator[Page, None, None]:
        """Yield the pages from that call number on, for whoever takes them at once.

        A node far away may be asked for a page before the one before it has arrived; should that one be
        lost, it cannot be had again by its number.
        """

    def close_scanner(self, scanner_id: str) -> None:
        """End a scan session; idempotent."""

    def read_token(self, token: bytes) -> OpenScan:
        """Return the call that goes on where the page with that resume token ended."""

    def list_scanners(self) -> list[ScannerInfo]:
        """Return the open scan sessions."""

    def kill_scanner(self, scanner_id: str) -> None:
        """End somebody's scan session."""

    def offsets(
        self, table_id: int, *, timestamp_ms: int | None = None, lease_id: str | None = None
    ) -> dict[TableBucket, Offsets]:
        """Return base and end of every bucket; with a timestamp, base = the first change at or after it.

        With a lease, of every bucket that it holds, also of a dropped table, up to the offset that it holds.
        """

    def log_state(self, table_id: int, *, since: int = 0) -> LogState:
        """Return base and end of every bucket, and of what went with dropped partitions from an id on."""

    def pull_changes(self, call: PullChanges) -> list[ChangePage]:
        """Return changes of the buckets that have some; empty when the wait ran out."""

    def lookup(self, call: LookupCall) -> LookupResult:
        """Return one row for each key in the order asked, with `_found`."""

    def prefix_lookup(self, call: LookupCall) -> LookupResult:
        """Return the live rows whose first key columns equal the one row of `keys`."""

    def stats(self, table_id: int) -> TableStats:
        """Return the state of a table."""

    def create_snapshot(self, table_id: int) -> list[Snapshot]:
        """Snapshot every bucket of a table at one cut; return the newest of each."""

    def list_snapshots(self, table_id: int) -> list[Snapshot]:
        """Return the snapshots of a table, by bucket, oldest first."""

    def acquire_lease(self, call: AcquireLease) -> LeaseInfo:
        """Take a lease, or more under one that is held."""

    def renew_lease(self, lease_id: str, duration_ms: int | None = None) -> LeaseTime:
        """Have a lease last that long from now on; None: as long as before."""

    def release_lease(self, lease_id: str, buckets: Sequence[TableBucket]) -> LeaseInfo:
        """Give some buckets of a lease back."""

    def drop_lease(self, lease_id: str) -> None:
        """Give a lease back with everything that it holds."""

    def list_leases(self) -> list[LeaseInfo]:
        """Return all leases."""

    def lease(self, lease_id: str) -> LeaseInfo:
        """Return a lease."""

    def lease_bytes(self, lease_id: str) -> int:
        """Return the size of the files that are kept only for a lease."""

    def close(self) -> None:
        """Let go of everything; idempotent."""
