"""A node in memory that can be killed at any moment, also in the middle of an alteration, and opened again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.kit.memory_key_index import MemoryKeyIndex

from penstock.client.connection import Connection
from penstock.engine.engine import Engine
from penstock.engine.home.storage import Storage
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.metadata.store import Put, Write
from penstock.engine.settings import Settings
from penstock.engine.table.open_table import OpenTable
from penstock.runtime.clock import SystemClock
from penstock.runtime.tasks import TaskGroup
from penstock.testing.faulty_disk import FaultyDisk

Moment = tuple[FaultyDisk, MemoryMetadataStore]
SETTINGS = Settings(segment_bytes=4096)


class WatchedMetadata(MemoryMetadataStore):
    """A metadata store that tells when a new schema is about to be stored, and when it was."""

    def __init__(self) -> None:
        super().__init__()
        self.on_schema: Callable[[], None] = lambda: None

    def commit(self, writes: Sequence[Write]) -> int:
        """Apply all writes or none."""
        is_schema = any(isinstance(write, Put) and write.key.startswith("catalog/schema/") for write in writes)
        if is_schema:
            self.on_schema()
        version = super().commit(writes)
        if is_schema:
            self.on_schema()
        return version

    def copy(self) -> WatchedMetadata:
        """Return a store that has what this one has."""
        copied = WatchedMetadata()
        with self._lock:
            copied._entries, copied._version = dict(self._entries), self._version
        return copied


class AlteredNode:
    """An engine on a disk in memory, and a connection to it."""

    def __init__(self) -> None:
        self.disk, self.metadata = FaultyDisk(), WatchedMetadata()
        self._open()

    def table(self, table_id: int) -> OpenTable:
        """Return a table as the engine has it."""
        return self.engine._tables.get(table_id)

    def now(self) -> Moment:
        """Return what a kill at this moment would leave."""
        return self.disk.after_kill(), self.metadata.copy()

    def around_alteration(self, alter: Callable[[], object]) -> list[Moment]:
        """Alter a table; return what kills right before and right behind the catalog's commit would have left."""
        moments: list[Moment] = []
        self.metadata.on_schema = lambda: moments.append(self.now())
        try:
            alter()
        finally:
            self.metadata.on_schema = lambda: None
        return moments

    def crash(self, random: Random, moment: Moment | None = None) -> None:
        """Be as if the process had been killed, or the power lost, at a moment; open what that left."""
        disk, metadata = moment or self.now()
        self.close()
        if random.random() < 0.5:
            seed = random.randrange(1 << 30)
            disk = disk.after_power_loss(seed)
        self.disk, self.metadata = disk, metadata.copy() if isinstance(metadata, WatchedMetadata) else WatchedMetadata()
        self._open()

    def restart(self) -> None:
        """Close in order, and open again."""
        metadata = self.metadata
        self.connection.close()
        self.engine.close()
        self.metadata = metadata.copy()
        self._open()

    def close(self) -> None:
        """Close everything; idempotent."""
        self.connection.close()
        self.engine.close()

    def _open(self) -> None:
        clock = SystemClock()
        self.engine = Engine(
            storage=Storage(self.disk, MemoryKeyIndex(), SETTINGS),
            metadata=self.metadata,
            settings=SETTINGS,
            clock=clock,
            tasks=TaskGroup(clock),
        )
        self.connection = Connection(self.engine, "altered")
