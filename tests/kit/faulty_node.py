"""A whole node on a disk that fails on request, and a connection to it: in this process, or over a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from tests.kit.memory_key_index import MemoryKeyIndex

from penstock.client.connection import Connection, connect
from penstock.engine.engine import Engine
from penstock.engine.home.storage import Storage
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.settings import Settings
from penstock.model.place.bucket import TableBucket
from penstock.runtime.clock import SystemClock
from penstock.runtime.tasks import TaskGroup
from penstock.server.server import Listen, Server
from penstock.testing.faulty_disk import FaultyDisk


@dataclass(frozen=True, slots=True)
class FaultyNode:
    """The disk, the engine on it, and a connection to the engine."""

    disk: FaultyDisk
    engine: Engine
    connection: Connection

    def path_part(self, bucket: TableBucket) -> str:
        """Return what the paths of a bucket's files have in common."""
        live = self.engine._tables.get(self.engine.catalog.table(bucket.table).table_id)
        found = live.bucket_id(bucket)
        return f"/{found.table_id}/{found.partition_id}/{found.bucket}/"

    def seal(self, path: str) -> None:
        """Move the rows of a table into data files."""
        self.engine.maintenance.compact_now(self.engine._tables.get(self.engine.catalog.table(path).table_id))


@contextmanager
def faulty_node(*, served: bool, settings: Settings | None = None) -> Iterator[FaultyNode]:
    """Open a node on a faulty disk; everything but its log is in memory and sound."""
    disk, chosen, clock = FaultyDisk(), settings or Settings(), SystemClock()
    engine = Engine(
        storage=Storage(disk, MemoryKeyIndex(), chosen),
        metadata=MemoryMetadataStore(),
        settings=chosen,
        clock=clock,
        tasks=TaskGroup(clock),
    )
    with ExitStack() as stack:
        if served:
            server = stack.enter_context(Server(engine, Listen(http_port=None)))
            connection = stack.enter_context(connect(server.url))
        else:
            connection = stack.enter_context(Connection(engine, "faulty"))
        yield FaultyNode(disk, engine, connection)
        disk.clear_faults()
        disk.capacity_bytes = None


def without_patience(connection: Connection) -> Connection:
    """Have a connection report at once what it would try again for a while."""
    connection._link.retry = replace(connection._link.retry, deadline_ms=0)
    return connection
