"""An engine on memory parts, and a server in front of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.certificates import make_certificates
from tests.kit.memory_engine import MemoryEngine
from tests.kit.watched_node import WatchedNode

from penstock.client.remote.node import RemoteNode
from penstock.errors import UnknownOrExpiredScannerError
from penstock.model.node.calls import (
    ChangePage,
    OpenScan,
    Operation,
    Page,
    PullChanges,
    WriteCall,
)
from penstock.model.place.bucket import TableBucket
from penstock.model.table.spec import make_spec
from penstock.runtime.clock import Clock
from penstock.server.server import Listen, Server
from penstock.server.settings import ServerSettings

BUCKET = TableBucket("default.orders", None, 0)


class ServedNode(WatchedNode):
    """An engine on memory parts with one table, `id` and `note`, whose id is 1; `rules` says how its calls fail."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        spec = make_spec("id BIGINT, note STRING, PRIMARY KEY (id)")
        assert self.engine.catalog.create_table("default.orders", spec).table_id == 1
        super().__init__(self.engine)
        self.hold = threading.Event()
        self.hold.set()
        self.rules.at("catalog.list_databases", lambda: self.hold.wait(30))
        self.rules.instead("catalog.drop_database", self._fail_on_a_bug)

    @staticmethod
    def _fail_on_a_bug(name: str, **_: bool) -> None:
        raise KeyError(f"a bug of the node: {name}")

    @property
    def batches(self) -> list[pa.RecordBatch]:
        """Return the batches that were written."""
        return [call.batch for call in self.rules.arguments("tables.write")]

    @property
    def databases(self) -> list[str]:
        """Return the names of the databases."""
        return self.engine.catalog.list_databases()

    @property
    def principals(self) -> list[str]:
        """Return the principal of each call for the list of databases."""
        return self.rules.callers("catalog.list_databases")

    def script(self, batches: Sequence[pa.RecordBatch]) -> set[str]:
        """Have scans and changes give these batches, each as a page; return the scanners that are open."""
        scanners: set[str] = set()

        def page(scanner_id: str, call_seq_id: int) -> Page:
            if scanner_id not in scanners:
                raise UnknownOrExpiredScannerError("the scanner is unknown or has expired", scanner_id=scanner_id)
            more = call_seq_id + 1 < len(batches)
            return Page(scanner_id, 9, (batches[call_seq_id],), more, call_seq_id + 1, b"t")

        def open_page(call: OpenScan) -> Page:
            assert call.bucket == BUCKET
            scanners.add("s-1")
            return page("s-1", 0)

        def close(scanner_id: str) -> None:
            scanners.discard(scanner_id)

        def pull(call: PullChanges) -> list[ChangePage]:
            start, _ = call.positions[BUCKET]
            return [ChangePage(BUCKET, batch, start, start + 1, start + 1) for batch in batches[start : start + 1]]

        self.rules.instead("scan.open", open_page)
        self.rules.instead("scan.next_page", page)
        self.rules.instead("scan.close", close)
        self.rules.instead("changes.pull", pull)
        return scanners


@pytest.fixture
def node() -> Iterator[ServedNode]:
    node = ServedNode()
    yield node
    node.hold.set()
    node.engine.close()


@pytest.fixture
def start(node: ServedNode) -> Iterator[Callable[..., Server]]:
    """Return a function that puts the node behind a server."""
    servers: list[Server] = []

    def run(settings: ServerSettings | None = None, clock: Clock | None = None, **listen: Any) -> Server:
        server = Server(node, Listen(**listen), settings=settings, clock=clock)
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
