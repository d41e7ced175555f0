"""An engine on memory parts: its disk can fail, its time passes when told to, its background work is run by hand."""

from __future__ import annotations

from tests.kit.memory_key_index import MemoryKeyIndex

from penstock.engine.engine import Engine
from penstock.engine.home.storage import Storage
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.settings import Settings
from penstock.model.place.bucket import TableBucket
from penstock.runtime.tasks import TaskGroup
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.sealing import seal
from penstock.testing.faulty_disk import FaultyDisk
from penstock.testing.manual_clock import ManualClock


class MemoryEngine(Engine):
    """A node without files and without threads of its own but the committers'."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.clock = ManualClock()
        self.disk = FaultyDisk()
        self._tasks_due = TaskGroup(self.clock, manual=True)
        self._key_index = MemoryKeyIndex()
        chosen = settings or Settings()
        super().__init__(
            storage=Storage(self.disk, self._key_index, chosen),
            metadata=MemoryMetadataStore(),
            settings=chosen,
            clock=self.clock,
            tasks=self._tasks_due,
        )

    def pass_time(self, ms: int) -> None:
        """Let time pass, and run what is due."""
        self.clock.advance(ms)
        self._tasks_due.run_due()

    def forget_before(self, bucket: TableBucket, offset: int) -> None:
        """Move the base of a bucket to an offset, as far as pins allow: what is older is gone."""
        table = self._tables.get(self.catalog.table(bucket.table).table_id)
        tablet = table.committer.tablets[table.bucket_id(bucket)]
        seal(tablet, active_too=True)
        checkpoint(tablet, self._key_index.flush)
        compact(tablet, offset)
