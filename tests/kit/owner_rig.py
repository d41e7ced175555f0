"""A table with owners on memory parts that can be killed, lose power, and be opened again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from tests.kit.memory_key_index import MemoryKeyIndex
from tests.kit.open_table import take_up

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.catalog.terms import Terms
from penstock.engine.commit.sync_pool import SyncPool
from penstock.engine.home.storage import Storage
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.metadata.store import Entry, Write
from penstock.engine.owners.attempt_ends import end_attempt
from penstock.engine.owners.owners import Owners
from penstock.engine.owners.staged_commit import TOGETHER_BYTES_MAX
from penstock.engine.settings import Settings
from penstock.engine.table.open_table import OpenTable
from penstock.errors import ClosedError
from penstock.model.node.calls import Operation, WriteCall, WriteResult
from penstock.model.node.owner import AcquireOwner, AttemptEnd
from penstock.model.node.owner_token import OwnerToken
from penstock.model.node.principal import LOCAL
from penstock.model.place.facts import NO_ID
from penstock.model.table.spec import make_spec
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.sealing import seal
from penstock.testing.faulty_disk import FaultyDisk
from penstock.testing.manual_clock import ManualClock


class MetadataCrashError(Exception):
    """The process died in a metadata commit."""


class CrashingMetadataStore:
    """A metadata store whose process dies in a chosen commit: before it counts, or after."""

    def __init__(self) -> None:
        self._store = MemoryMetadataStore()
        self._commits_left: int | None = None
        self._applies = False

    def crash_in(self, commits: int, *, applies: bool) -> None:
        """Die in the commit after that many; `applies`: it still counts."""
        self._commits_left, self._applies = commits, applies

    def clear(self) -> None:
        """Forget a crash that has not struck."""
        self._commits_left = None

    def get(self, key: str) -> Entry | None:
        """Return what is under a key."""
        return self._store.get(key)

    def list(self, prefix: str) -> list[Entry]:
        """Return everything whose key starts with a prefix."""
        return self._store.list(prefix)

    def commit(self, writes: Sequence[Write]) -> int:
        """Apply all writes or none, or die."""
        if self._commits_left is not None:
            self._commits_left -= 1
            if self._commits_left < 0:
                if self._applies:
                    self._store.commit(writes)
                raise MetadataCrashError
        return self._store.commit(writes)

    def close(self) -> None:
        """Stay open: the store outlives every process."""


class OwnerRig:
    """One table with its owners; `crash` opens it again as the next process finds it."""

    def __init__(self, ddl: str, *, together_bytes_max: int = TOGETHER_BYTES_MAX, **options: Any) -> None:
        self._together_bytes_max = together_bytes_max
        self.disk = FaultyDisk()
        self.metadata = CrashingMetadataStore()
        self.clock = ManualClock()
        self.settings = Settings()
        self._index = MemoryKeyIndex()
        catalog = Catalog(self.metadata, self.clock)
        catalog.create_database("t", if_not_exists=True)
        self._table_id = catalog.create_table("t.t", make_spec(ddl, **options), creator=LOCAL).table_id
        self._open()

    def _open(self) -> None:
        self._syncs = SyncPool()
        storage = Storage(self.disk, self._index, self.settings)
        catalog = Catalog(self.metadata, self.clock)
        self.table = OpenTable(
            catalog.table_by_id(self._table_id),
            catalog,
            storage.open_tablets,
            terms=Terms(self.metadata),
            clock=self.clock,
            syncs=self._syncs,
        )
        self.owners = Owners(
            self.table,
            self.metadata,
            disk=self.disk,
            settings=self.settings,
            clock=self.clock,
            together_bytes_max=self._together_bytes_max,
        )

    def crash(self, seed: int, *, power_loss: bool) -> None:
        """Let the process die now and open the table again."""
        self.metadata.clear()
        self.close()
        self.disk = self.disk.after_power_loss(seed) if power_loss else self.disk.after_kill()
        self._index = self._index.after_crash(seed)
        self._open()

    def close(self) -> None:
        """End the threads, without finishing anything."""
        self.table.committer.close(ClosedError("the rig is closed"))
        self._syncs.close()

    def acquire(
        self, owner: str, *columns: str, ttl_ms: int = 1_000, incarnation: str | None = None, who: str = LOCAL
    ) -> OwnerToken:
        """Acquire an owner for a principal; return the token of its handle."""
        call = AcquireOwner(self._table_id, owner, columns or None, ttl_ms, incarnation, "test")
        return OwnerToken.from_bytes(self.owners.acquire(call, principal=who).token)

    def begin(self, owner: OwnerToken, epoch: int) -> OwnerToken:
        """Begin an epoch; return its token."""
        return owner.at(fence=self.owners.begin(owner, epoch).fence, epoch=epoch)

    def call(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        columns: Sequence[str] | None = None,
        operation: Operation | None = None,
        owner: OwnerToken | None = None,
        **facts: Any,
    ) -> WriteCall:
        """Return a write call of rows given as dictionaries."""
        info = self.table.info
        kind = operation or (Operation.UPSERT if info.keyed else Operation.APPEND)
        if kind is Operation.DELETE:
            names: Sequence[str] = info.primary_key
        else:
            names = info.schema.names if columns is None else [*info.primary_key, *columns]
        schema = pa.schema([info.schema.arrow_schema.field(name) for name in names])
        batch = pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=schema)
        token = None if owner is None else owner.to_bytes()
        named = None if columns is None else tuple(columns)
        return WriteCall(self._table_id, info.schema_id, kind, batch, columns=named, owner=token, **facts)

    def write(self, rows: Sequence[Mapping[str, Any]], **facts: Any) -> WriteResult:
        """Write rows in a step of their own, so that a simulated crash reaches the caller."""
        return self.send(self.call(rows, **facts))

    def send(self, call: WriteCall) -> WriteResult:
        """Make a write call in a step of its own."""
        queued = self.table.route(call)
        if call.owner is not None:
            self.owners.guard.stamp(call, queued, principal=LOCAL)
        self.table.committer.write_found(lambda: queued)
        self.owners.guard.applied(call, queued)
        changes = sum(end - start for start, end in queued.ranges.values())
        return WriteResult(queued.rows, changes, 0, done=queued.late)

    def delete(self, keys: Sequence[Mapping[str, Any]], owner: OwnerToken | None = None) -> WriteResult:
        """Delete rows by key."""
        return self.write(keys, operation=Operation.DELETE, owner=owner)

    def stage(self, rows: Sequence[Mapping[str, Any]], owner: OwnerToken, attempt: bytes, **facts: Any) -> None:
        """Stage rows."""
        self.owners.staged.stage(self.call(rows, owner=owner, attempt=attempt, **facts))

    def end(self, owner: OwnerToken, attempt: bytes, rows: int) -> AttemptEnd:
        """End an attempt."""
        return end_attempt(self.table, self.owners.guard, owner, attempt, rows)

    def rows(self) -> list[dict[str, Any]]:
        """Return the live rows, ordered by all their values."""
        columns = [(str(column.id), column.name) for column in self.table.info.schema.columns]
        found = []
        for view in self.table.view.values():
            for block in view.scan(view.visible, self.table.schema.user_columns):
                found += [{name: row[id] for id, name in columns} for row in block.batch.to_pylist()]
        return sorted(found, key=lambda row: tuple((value is None, value) for value in row.values()))

    def add_column(self, name: str) -> None:
        """Add a bigint column."""
        catalog = Catalog(self.metadata, self.clock)
        take_up(self.table, catalog.add_column(self._table_id, name, pa.int64(), None))

    def set_properties(self, properties: Mapping[str, Any]) -> None:
        """Change properties of the table."""
        take_up(self.table, Catalog(self.metadata, self.clock).set_properties(self._table_id, properties))

    def pins(self) -> list[str]:
        """Return the names of all pins."""
        return sorted(str(pin) for tablet in self.table.committer.tablets.values() for pin in tablet.pins.snapshot())

    def compact(self) -> None:
        """Seal, checkpoint and compact every bucket as far as pins allow."""
        for tablet in list(self.table.committer.tablets.values()):
            seal(tablet, active_too=True)
            checkpoint(tablet, self._index.flush)
            compact(tablet, tablet.view.visible)


def attempt_id(number: int) -> bytes:
    """Return an attempt's 16 bytes."""
    assert number > 0
    return number.to_bytes(len(NO_ID), "big")
