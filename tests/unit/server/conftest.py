"""A node that is a dict and a list, and a server in front of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from tests.kit.certificates import make_certificates
from tests.kit.flat_node import FlatFacet, FlatNode

from penstock.client.remote.node import RemoteNode
from penstock.errors import AlreadyExistsError, UnknownOrExpiredScannerError
from penstock.model.node.calls import (
    ChangePage,
    LookupCall,
    LookupResult,
    OpenScan,
    Operation,
    Page,
    PullChanges,
    WriteCall,
    WriteResult,
)
from penstock.model.node.node import Node, SharedNode
from penstock.model.place.bucket import TableBucket
from penstock.runtime.clock import Clock
from penstock.server.server import Listen, Server
from penstock.server.settings import ServerSettings

BUCKET = TableBucket("shop.orders", None, 0)


class ListNode(FlatNode):
    """One table, `id` and `note`, whose log is a list of batches."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.batches: list[pa.RecordBatch] = []
        self.databases = ["default"]
        self.scans: dict[str, int] = {}
        self.principals: list[str] = []
        self.pulls_waiting = 0
        self.closed = False
        self.hold = threading.Event()
        self.hold.set()

    def database_id(self) -> str:
        return "0f" * 16

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        if name in self.databases and not if_not_exists:
            raise AlreadyExistsError("the database exists", database=name)
        self.databases.append(name)

    def list_databases(self) -> list[str]:
        assert self.hold.wait(30)
        return list(self.databases)

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        raise KeyError(f"a bug of the node: {name}")

    def write(self, call: WriteCall) -> WriteResult:
        with self.changed:
            start = sum(batch.num_rows for batch in self.batches)
            self.batches.append(call.batch)
            self.changed.notify_all()
        rows = call.batch.num_rows
        return WriteResult(rows, rows, 0, {BUCKET: (start, start + rows)})

    def open_scanner(self, call: OpenScan) -> Page:
        self.scans["s-1"] = 0
        return self.next_page("s-1", 0)

    def next_page(self, scanner_id: str, call_seq_id: int) -> Page:
        if scanner_id not in self.scans:
            raise UnknownOrExpiredScannerError("the scanner is unknown or has expired", scanner_id=scanner_id)
        batch = self.batches[call_seq_id]
        return Page(scanner_id, 9, (batch,), call_seq_id + 1 < len(self.batches), call_seq_id + 1, b"t")

    def close_scanner(self, scanner_id: str) -> None:
        self.scans.pop(scanner_id, None)

    def pull_changes(self, call: PullChanges) -> list[ChangePage]:
        start, _ = call.positions[BUCKET]
        with self.changed:
            self.pulls_waiting += 1
            self.changed.wait_for(lambda: len(self.batches) > start, call.wait_ms / 1000)
            self.pulls_waiting -= 1
            return [ChangePage(BUCKET, batch, start, start + 1, start + 1) for batch in self.batches[start : start + 1]]

    def lookup_rows(self, call: LookupCall) -> LookupResult:
        return LookupResult(call.keys, {BUCKET: len(self.batches)})

    def close(self) -> None:
        self.closed = True

    def acting_as(self, principal: str) -> Node:
        return cast(Node, _Acting(self, principal))


class _Acting:
    """The node as a principal sees it: notes who lists databases."""

    def __init__(self, node: ListNode, principal: str) -> None:
        self._node = node
        self._principal = principal
        self.catalog = self

    def list_databases(self) -> list[str]:
        self._node.principals.append(self._principal)
        return self._node.list_databases()

    def __getattr__(self, name: str) -> Any:
        catalog = FlatFacet(self._node, "catalog")
        return getattr(catalog, name) if hasattr(catalog, name) else getattr(self._node, name)


@pytest.fixture
def node() -> ListNode:
    return ListNode()


@pytest.fixture
def start(node: ListNode) -> Iterator[Callable[..., Server]]:
    """Return a function that puts the node behind a server."""
    servers: list[Server] = []

    def run(settings: ServerSettings | None = None, clock: Clock | None = None, **listen: Any) -> Server:
        server = Server(cast(SharedNode, node), Listen(**listen), settings=settings, clock=clock)
        servers.append(server)
        return server

    yield run
    node.hold.set()
    for server in servers:
        server.close()


@pytest.fixture
def reach() -> Iterator[Callable[..., RemoteNode]]:
    """Return a function that connects to a server."""
    remotes: list[RemoteNode] = []

    def run(server: Server, **options: Any) -> RemoteNode:
        remotes.append(RemoteNode(server.url, **options))
        return remotes[-1]

    yield run
    for remote in remotes:
        remote.close()


@pytest.fixture
def make_write() -> Callable[..., WriteCall]:
    """Return a function that makes a write of a few rows."""

    def run(rows: int = 2, sequence: int = 0) -> WriteCall:
        batch = pa.record_batch({"id": list(range(rows)), "note": ["x"] * rows})
        return WriteCall(1, 0, Operation.UPSERT, batch, writer_id=b"w" * 16, sequence=sequence)

    return run


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a CA, and a server's and clients' certificates signed by it."""
    return make_certificates(tmp_path_factory.mktemp("tls"))
