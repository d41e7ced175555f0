"""A node at the other end of a connection."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import flight

from penstock.client.link.request_id import current_request_id
from penstock.client.remote.call_streams import CallStreams
from penstock.client.remote.credentials import read_tls_files, token_bytes
from penstock.client.remote.diagnosis import explain
from penstock.client.remote.owners import RemoteOwners
from penstock.client.remote.requests import Requests
from penstock.client.remote.stream_affinity import ScannerSubjects, rows_of
from penstock.client.remote.write_stream import WriteStream, plain_write
from penstock.errors import (
    ClosedError,
    InvalidError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedError,
)
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
from penstock.model.node.ports import FLIGHT_PORT
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.aggregate import AggFunction
from penstock.model.table.table import TableInfo, TableSpec
from penstock.wire import calls as wire
from penstock.wire.call import Call
from penstock.wire.frame import FRAME_BYTES_MAX
from penstock.wire.plain import plain_batch

R = TypeVar("R")

SCHEMES: Final = {"penstock": "grpc", "penstock+tls": "grpc+tls"}
_LEASES: Final = "leases"
"""The subject of calls whose answers have a batch of what is leased."""
_MESSAGE_BYTES_MAX: Final = FRAME_BYTES_MAX + (1 << 20)
_TRANSPORT: Final = [
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
    # A connection of our own, that is tried again soon after the server is back.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),
]


class RemoteNode(RemoteOwners):
    """A server's node. Thread-safe; connects when it is first asked, and again after the connection broke.

    A call is made once: whoever calls decides what is tried again. Implements `penstock.model.node.node.Node`.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        tls: Mapping[str, str | Path] | None = None,
        timeout_ms: int = 60_000,
        database: str | None = None,
        any_database: bool = False,
    ) -> None:
        """Reach a server by its url.

        `database` is the id of the database that it must serve, if that is known; else the first that answers, or with
        `any_database` whichever does.
        """
        location, self._address, self._secure = _locate(url)
        if tls and not self._secure:
            raise InvalidError("tls files go with a penstock+tls:// url", url=url)
        files = {} if tls is None else read_tls_files(tls)
        self.url = url
        self._timeout_ms = timeout_ms
        self._pid = os.getpid()
        self._ids = itertools.count(1)
        self._scanners = ScannerSubjects()
        self._any_database = any_database
        headers = [] if token is None else [(b"authorization", b"Bearer " + token_bytes(token))]
        self._streams = CallStreams(
            lambda: flight.FlightClient(location, generic_options=_TRANSPORT, **files),
            flight.FlightCallOptions(headers=headers),
            database,
        )
        self._requests = Requests(self._streams)
        # gRPC has a line of its own on stderr for each handshake that fails; ours says it once.
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

    def __repr__(self) -> str:
        return f"RemoteNode({self.url})"

    def close(self) -> None:
        """End the connection; idempotent, and nothing in a forked child."""
        if os.getpid() == self._pid:
            self._streams.close()

    def database_id(self) -> str:
        """Return the id of the database, which is asked for once: no other is talked to from then on."""
        known = self._streams.database
        if known is None:
            known = self._ask(wire.DATABASE_ID)
            self._streams.database = None if self._any_database else known
        return known

    def check_origin(
        self, database: str, table_id: int, offsets: Mapping[TableBucket, int], births: int | None = None
    ) -> None:
        """Refuse a place in a table unless it is of this database, or of what it has of an ancestor."""
        self._ask(wire.CHECK_ORIGIN, database=database, table_id=table_id, offsets=offsets, births=births)

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a database."""
        self._ask(wire.CREATE_DATABASE, name=name, if_not_exists=if_not_exists)

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        return self._ask(wire.LIST_DATABASES)

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop a database; with tables in it only if `cascade`."""
        self._ask(wire.DROP_DATABASE, name=name, cascade=cascade, if_exists=if_exists)

    def create_table(self, path: str, spec: TableSpec, *, if_not_exists: bool = False) -> TableInfo:
        """Create a table."""
        return self._ask(wire.CREATE_TABLE, path=path, spec=spec, if_not_exists=if_not_exists)

    def table(self, path: str) -> TableInfo:
        """Return the table of that path as it is now."""
        return self._ask(wire.TABLE, path=path)

    def table_by_id(self, table_id: int) -> TableInfo:
        """Return the table of that id as it is now."""
        return self._ask(wire.TABLE_BY_ID, table_id=table_id)

    def list_tables(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted."""
        return self._ask(wire.LIST_TABLES, database=database)

    def drop_table(self, path: str, *, if_exists: bool = False) -> None:
        """Drop a table."""
        self._ask(wire.DROP_TABLE, path=path, if_exists=if_exists)

    def add_column(self, table_id: int, name: str, type: pa.DataType, agg: AggFunction | None = None) -> TableInfo:
        """Add a nullable column; rows written before read null."""
        return self._ask(wire.ADD_COLUMN, table_id=table_id, name=name, type=type, agg=agg)

    def list_partitions(self, table_id: int) -> list[str]:
        """Return the partition names of a table, sorted."""
        return self._ask(wire.LIST_PARTITIONS, table_id=table_id)

    def create_partition(self, table_id: int, values: Mapping[str, object], *, if_not_exists: bool = False) -> str:
        """Create a partition; return its name."""
        return self._ask(wire.CREATE_PARTITION, table_id=table_id, values=values, if_not_exists=if_not_exists)

    def drop_partition(self, table_id: int, values: Mapping[str, object], *, if_exists: bool = False) -> None:
        """Drop a partition with its rows."""
        self._ask(wire.DROP_PARTITION, table_id=table_id, values=values, if_exists=if_exists)

    def buckets(self, table_id: int) -> list[TableBucket]:
        """Return every bucket of the table, of every partition, sorted."""
        return self._ask(wire.BUCKETS, table_id=table_id)

    def write(self, call: WriteCall) -> WriteResult:
        """Apply a write; return when it is durable and visible."""
        return self._ask(wire.WRITE, rows=call.batch.num_rows, call=plain_write(call))

    def write_stream(self) -> WriteStream:
        """Return a stream for writes that are sent ahead."""
        self._check_process()
        if not self._any_database:
            self.database_id()
        return WriteStream(self._streams.lend(), self._ids, self._timeout_ms, self._requests)

    def delete_where(self, table_id: int, filter: bytes, writer_id: bytes, sequence: int) -> WriteResult:
        """Delete the rows that match a serialised filter, as of one cut."""
        return self._ask(wire.DELETE_WHERE, table_id=table_id, filter=filter, writer_id=writer_id, sequence=sequence)

    def truncate(self, table_id: int) -> WriteResult:
        """Delete all rows, in the changelog."""
        return self._ask(wire.TRUNCATE, table_id=table_id)

    def open_cut(
        self,
        table_id: int,
        *,
        as_of: Mapping[TableBucket, int] | None = None,
        buckets: Sequence[TableBucket] | None = None,
    ) -> Cut:
        """Take and pin the present cut, or pin the one given."""
        named = None if buckets is None else list(buckets)
        return self._ask(wire.OPEN_CUT, table_id=table_id, as_of=as_of, buckets=named)

    def release_cut(self, cut_id: str) -> None:
        """Unpin a cut; idempotent."""
        self._ask(wire.RELEASE_CUT, cut_id=cut_id)

    def named_cut(self, table_id: int, name: str, ttl_ms: int) -> Cut:
        """Return the cut of that name, which the first to ask fixes; kept for `ttl_ms` after the last to ask."""
        return self._ask(wire.NAMED_CUT, table_id=table_id, name=name, ttl_ms=ttl_ms)

    def open_scanner(self, call: OpenScan) -> Page:
        """Open a scan session and return its first page (call 0)."""
        subject = rows_of(call)
        page = self._ask(wire.OPEN_SCANNER, subject=subject, call=call)
        self._scanners.note(page, subject)
        return page

    def open_scanners(self, calls: Sequence[OpenScan]) -> list[Page]:
        """Open scan sessions up to the first with more than a page; return their first pages."""
        subject = rows_of(calls[0])
        pages = self._ask(wire.OPEN_SCANNERS, subject=subject, calls=tuple(calls))
        if not 0 < len(pages) <= len(calls):
            raise InvalidError("the server opened other scans than were asked for", asked=len(calls), opened=len(pages))
        self._scanners.note(pages[-1], subject)
        return pages

    def next_page(self, scanner_id: str, call_seq_id: int) -> Page:
        """Return the page of that call number: the next one, or the latest again."""
        subject = self._scanners.get(scanner_id)
        page = self._ask(wire.NEXT_PAGE, subject=subject, scanner_id=scanner_id, call_seq_id=call_seq_id)
        if not page.has_more:
            self._scanners.forget(scanner_id)
        return page

    def pages(self, scanner_id: str, call_seq_id: int) -> Generator[Page, None, None]:
        """Yield the pages from that call number on; the next is asked for while one still arrives."""
        ids: deque[int] = deque()

        def requests() -> Iterator[pa.Buffer]:
            for number in itertools.count(call_seq_id):
                ids.append(next(self._ids))
                yield wire.NEXT_PAGE.encode_request(ids[-1], {"scanner_id": scanner_id, "call_seq_id": number})

        subject = self._scanners.get(scanner_id)
        with closing(self._streams.ask_each(requests(), timeout_ms=self._timeout_ms, affinity=subject)) as answers:
            for answer in answers:
                page = wire.NEXT_PAGE.decode_reply(ids.popleft(), answer.frame, answer.batches)
                yield page
                if not page.has_more:
                    self._scanners.forget(scanner_id)
                    return

    def close_scanner(self, scanner_id: str) -> None:
        """End a scan session; idempotent."""
        self._scanners.forget(scanner_id)
        self._ask(wire.CLOSE_SCANNER, scanner_id=scanner_id)

    def read_token(self, token: bytes) -> OpenScan:
        """Return the call that goes on where the page with that resume token ended."""
        return self._ask(wire.READ_TOKEN, token=token)

    def list_scanners(self) -> list[ScannerInfo]:
        """Return the open scan sessions."""
        return self._ask(wire.LIST_SCANNERS)

    def kill_scanner(self, scanner_id: str) -> None:
        """End somebody's scan session."""
        self._ask(wire.KILL_SCANNER, scanner_id=scanner_id)

    def offsets(
        self, table_id: int, *, timestamp_ms: int | None = None, lease_id: str | None = None
    ) -> dict[TableBucket, Offsets]:
        """Return base and end of every bucket; with a timestamp, base = the first change at or after it."""
        found: Mapping[TableBucket, Offsets] = self._ask(
            wire.OFFSETS, table_id=table_id, timestamp_ms=timestamp_ms, lease_id=lease_id
        )
        return dict(found)

    def log_state(self, table_id: int, *, since: int = 0) -> LogState:
        """Return base and end of every bucket, and of what went with dropped partitions from an id on."""
        return self._ask(wire.LOG_STATE, table_id=table_id, since=since)

    def pull_changes(self, call: PullChanges) -> list[ChangePage]:
        """Return changes of the buckets that have some; empty when the wait ran out."""
        subject = ("changes", call.table_id, call.schema_id, call.columns, call.images)
        return self._ask(wire.PULL, wait_ms=call.wait_ms, subject=subject, call=call)

    def lookup(self, call: LookupCall) -> LookupResult:
        """Return one row for each key in the order asked, with `_found`."""
        subject = ("lookup", call.table_id, call.schema_id, call.columns)
        return self._ask(wire.LOOKUP, subject=subject, call=_plain_keys(call))

    def prefix_lookup(self, call: LookupCall) -> LookupResult:
        """Return the live rows whose first key columns equal the one row of `keys`."""
        return self._ask(
            wire.PREFIX_LOOKUP, subject=(call.table_id, call.schema_id, call.columns), call=_plain_keys(call)
        )

    def stats(self, table_id: int) -> TableStats:
        """Return the state of a table."""
        return self._ask(wire.STATS, table_id=table_id)

    def create_snapshot(self, table_id: int) -> list[Snapshot]:
        """Snapshot every bucket of a table at one cut; return the newest of each."""
        return self._ask(wire.CREATE_SNAPSHOT, subject=_LEASES, table_id=table_id)

    def list_snapshots(self, table_id: int) -> list[Snapshot]:
        """Return the snapshots of a table, by bucket, oldest first."""
        return self._ask(wire.LIST_SNAPSHOTS, subject=_LEASES, table_id=table_id)

    def acquire_lease(self, call: AcquireLease) -> LeaseInfo:
        """Take a lease, or more under one that is held."""
        return self._ask(wire.ACQUIRE, subject=_LEASES, call=call)

    def renew_lease(self, lease_id: str, duration_ms: int | None = None) -> LeaseTime:
        """Have a lease last that long from now on; None: as long as before."""
        return self._ask(wire.RENEW_LEASE, lease_id=lease_id, duration_ms=duration_ms)

    def release_lease(self, lease_id: str, buckets: Sequence[TableBucket]) -> LeaseInfo:
        """Give some buckets of a lease back."""
        return self._ask(wire.RELEASE_LEASE, subject=_LEASES, lease_id=lease_id, buckets=list(buckets))

    def drop_lease(self, lease_id: str) -> None:
        """Give a lease back with everything that it holds."""
        self._ask(wire.DROP_LEASE, lease_id=lease_id)

    def list_leases(self) -> list[LeaseInfo]:
        """Return all leases."""
        return self._ask(wire.LIST_LEASES, subject=_LEASES)

    def lease(self, lease_id: str) -> LeaseInfo:
        """Return a lease."""
        return self._ask(wire.LEASE, subject=_LEASES, lease_id=lease_id)

    def lease_bytes(self, lease_id: str) -> int:
        """Return the size of the files that are kept only for a lease."""
        return self._ask(wire.LEASE_BYTES, lease_id=lease_id)

    def _ask(
        self, asked: Call[R], /, *, rows: int = 0, wait_ms: int = 0, subject: Hashable = None, **arguments: Any
    ) -> R:
        self._check_process()
        if asked is not wire.DATABASE_ID and not self._any_database:
            self.database_id()
        call_id = next(self._ids)
        request = asked.draft_request(call_id, arguments, request_id=current_request_id())
        try:
            answer = self._requests.ask(
                call_id, request, rows=rows, timeout_ms=self._timeout_ms + wait_ms, affinity=subject
            )
        except (UnavailableError, UnsupportedError, PermissionDeniedError) as error:
            if "cause" not in error.facts:
                raise
            raise explain(error, self.url, self._address, secure=self._secure) from error
        return asked.decode_reply(call_id, answer.frame, answer.batches)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise ClosedError("a connection does not survive a fork; connect again in this process", url=self.url)


def _plain_keys(call: LookupCall) -> LookupCall:
    keys = plain_batch(call.keys)
    return call if keys is call.keys else replace(call, keys=keys)


def _locate(url: str) -> tuple[str, tuple[str, int], bool]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or FLIGHT_PORT
    except ValueError as error:
        raise InvalidError("not a server's url; it is penstock://host:port", url=url) from error
    if parts.scheme not in SCHEMES or not host or parts.path not in ("", "/") or parts.query or parts.username:
        raise InvalidError("not a server's url; it is penstock://host:port or penstock+tls://host:port", url=url)
    shown = f"[{host}]" if ":" in host else host
    return f"{SCHEMES[parts.scheme]}://{shown}:{port}", (host, port), parts.scheme == "penstock+tls"
