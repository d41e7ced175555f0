"""Background work on buckets: seal, checkpoint, compact, retain, expire partitions.

One pass at a time over all open buckets, in one thread, so that no bucket is worked on twice at
once. Readers never wait for it; writers wait only when sealing cannot keep up with them.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.commit.refusals import refusal
from penstock.engine.home.memory_budget import MemoryBudget
from penstock.engine.settings import Settings
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.open_tables import OpenTables
from penstock.engine.upkeep.retention import is_worth, retention_target
from penstock.engine.upkeep.statistics import table_stats
from penstock.errors import BucketFailedError, ClosedError, CorruptionError, DiskFullError, NotFoundError, PenstockError
from penstock.model.node.calls import TableStats
from penstock.model.place.bucket import BucketId
from penstock.runtime.steady_clock import SteadyClock
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact, truncate
from penstock.tablet.steps.sealing import seal
from penstock.tablet.tablet import Tablet

_log = logging.getLogger("penstock")

UNSEALED_SEGMENTS_MAX = 3
CLOSING_REPLAY_MAX = 50_000
COMPACTION_INTERVAL_MS = 30_000
START_PATIENCE_MS = 10 * 60_000
"""How long partitions are kept after a start which finds all of a table's rows older than its retention."""


FlushIndex = Callable[[Collection[BucketId]], None]
"""Make durable what the index has of some buckets."""


class _FilesLock:
    """The lock of one bucket's files: who holds it may change them. Gone when nobody holds or waits for it."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


@dataclass(slots=True)
class _Done:
    """The work done on one table, and when each bucket was last attended to."""

    counts: Counter[str] = field(default_factory=Counter)
    checkpointed_ms: dict[BucketId, int] = field(default_factory=dict)
    compacted_ms: dict[BucketId, int] = field(default_factory=dict)
    outlived: bool | None = None
    """Whether all of the table was older than its retention when it was first looked at."""


class Maintenance:
    """Keeps the buckets of a node in shape. Thread-safe: a lock for each bucket lets one step run at a time."""

    def __init__(
        self,
        tables: OpenTables,
        catalog: Catalog,
        settings: Settings,
        clock: SteadyClock,
        *,
        flush_index: FlushIndex,
        failures: Callable[[], dict[str, int]] = dict,
    ) -> None:
        """Work on open tables; `failures` counts how often background work of the node failed, for `stats`."""
        self._failures = failures
        self._tables = tables
        self._catalog = catalog
        self._settings = settings
        self._clock = clock
        self._started_ms, self._started_wall_ms = clock.monotonic_ms(), clock.wall_ms()
        self._flush_index = flush_index
        self._tail_bytes_max = MemoryBudget.of(settings).tails
        self._written_bytes = 0
        self._lock = threading.Lock()
        self._files_locks: WeakValueDictionary[BucketId, _FilesLock] = WeakValueDictionary()
        self._done: dict[int, _Done] = {}
        self._unrelieved: dict[int, dict[BucketId, Exception]] = {}
        """Of each table the buckets that could not be sealed for a writer, and why."""

    @contextmanager
    def attending(self, bucket: BucketId) -> Iterator[None]:
        """Seal, checkpoint, snapshot or compact a bucket inside: one after the other, each bucket for itself."""
        with self._lock:
            files = self._files_locks.get(bucket)
            if files is None:
                files = self._files_locks[bucket] = _FilesLock()
        with files.lock:
            yield

    def run(self) -> None:
        """Do what is due everywhere.

        Raises:
            OSError, PenstockError: what failed first; the other buckets were attended to.
        """
        self._expire_partitions()
        refused = self._relieve_memory()
        for table, tablet in self._tables.tablets():
            try:
                self._attend(table, tablet)
            except (OSError, PenstockError) as error:
                refused.append(error)
        if refused:
            raise refused[0]

    def sync_logs(self) -> None:
        """Make every log durable: beside other work, which may take longer than the interval."""
        for table, tablet in self._tables.tablets():
            if tablet.standing.takes_writes:
                # Closed, dropped or failed meanwhile: its state says so.
                with suppress(ClosedError, NotFoundError, BucketFailedError):
                    table.committer.run(tablet.sync_log)

    def relieve(self, tablet: Tablet, table: OpenTable) -> None:
        """Seal for a writer that is ahead of the background: it waits, memory stays bounded.

        What it wrote is written: that sealing failed is told to the next one, by `check_relieved`.
        """
        if len(tablet.state.closed) <= UNSEALED_SEGMENTS_MAX:
            return
        try:
            with self.attending(tablet.bucket):
                if len(tablet.state.closed) > UNSEALED_SEGMENTS_MAX:
                    self._seal(table, tablet)
        except (OSError, PenstockError) as error:
            _log.warning("rows stay in memory, they could not be sealed bucket=%s reason=%s", tablet.bucket, error)
            self._count(table.info.table_id, seals_failed=1)
            with self._lock:
                self._unrelieved.setdefault(table.info.table_id, {})[tablet.bucket] = error

    def check_relieved(self, table: OpenTable, size: int) -> None:
        """Let no write in while a bucket of its table has more unsealed rows than it may; the background tries again.

        A writer that comes when much was written since the last look at all buckets, `size` included, looks itself.

        Raises:
            DiskFullError, UnavailableError: as the disk refused to take them.
        """
        self._written_bytes += size
        if self._written_bytes > self._tail_bytes_max // 4:
            # What the disk refuses here it refuses in the background as well, which tells of it.
            self._relieve_memory()
        unrelieved = self._unrelieved.get(table.info.table_id)
        if not unrelieved:
            return
        with self._lock:
            for bucket, error in list(unrelieved.items()):
                tablet = table.committer.tablets.get(bucket)
                # One that failed refuses writes by itself.
                full = tablet is not None and len(tablet.state.closed) > UNSEALED_SEGMENTS_MAX
                if full and isinstance(error, OSError):
                    raise refusal(error, bucket)
                del unrelieved[bucket]

    def seal_now(self, table: OpenTable, tablet: Tablet) -> None:
        """Seal all rows of a bucket, if it takes writes.

        Raises:
            OSError: as the disk gave it; the rows stay where they are.
            BucketFailedError: the log could not be finished.
        """
        with self.attending(tablet.bucket):
            if tablet.standing.takes_writes:
                self._seal(table, tablet, active_too=True)

    def compact_now(self, table: OpenTable, *, everything: bool = False) -> None:
        """Compact a table as far as retention and pins allow, or, for `everything`, as far as pins allow."""
        for tablet in list(table.committer.tablets.values()):
            with self.attending(tablet.bucket):
                self._seal(table, tablet, active_too=True)
                self._checkpoint(table, tablet)
                self._compact(table, tablet, tablet.view.visible if everything else None, prompt=True)

    def truncate(self, table: OpenTable) -> int:
        """Hide what a log table has from new readers and remove what is needed no more; return how many rows went."""
        rows, view = 0, table.view
        for tablet in [t for t in table.committer.tablets.values() if t.bucket in view]:
            with self.attending(tablet.bucket):
                self._seal_if_there_is_room(table, tablet)
                self._checkpoint(table, tablet)
                rows += truncate(tablet, view[tablet.bucket].visible)
                self._compact(table, tablet, tablet.state.base, prompt=True)
        return rows

    def free(self, table: OpenTable, tablet: Tablet) -> None:
        """Compact a bucket in which a pin went, as far as retention and the other pins allow."""
        with self.attending(tablet.bucket):
            if not tablet.standing.takes_writes:
                return
            target = retention_target(tablet, table.info.options, self._clock.earliest_ms())
            reachable = min(target, tablet.pins.floor())
            if reachable <= tablet.kept_from:
                return
            try:
                if tablet.state.checkpoint < reachable:
                    self._seal(table, tablet, active_too=True)
                    self._checkpoint(table, tablet)
                self._compact(table, tablet, target, prompt=True)
            except (ClosedError, NotFoundError, BucketFailedError):
                return  # closed, dropped or failed meanwhile: its state says so

    def checkpoint_before_close(self) -> None:
        """Save what the next open would have to replay, where that is much."""
        for table, tablet in self._tables.tablets():
            with self.attending(tablet.bucket):
                if (
                    tablet.view.visible - tablet.state.checkpoint <= CLOSING_REPLAY_MAX
                    or not tablet.standing.takes_writes
                ):
                    continue
                try:
                    self._checkpoint(table, tablet)
                except (OSError, PenstockError) as error:
                    _log.warning("no checkpoint, the next start replays more bucket=%s reason=%s", tablet.bucket, error)

    def stats(self, table: OpenTable) -> TableStats:
        """Return the state of a table in numbers."""
        return table_stats(table, self.counts(table.info.table_id) | {"failures": self._failures()})

    def count_expired(self, table_id: int, rows: int) -> None:
        """Count rows that went by their age."""
        self._count(table_id, rows_expired=rows)

    def counts(self, table_id: int) -> dict[str, int]:
        """Return what was done to a table since it was opened."""
        return dict(self._of(table_id).counts)

    def _attend(self, table: OpenTable, tablet: Tablet) -> None:
        try:
            with self.attending(tablet.bucket):
                if not tablet.standing.takes_writes:
                    return
                if tablet.state.closed:
                    self._seal(table, tablet)
                due = self._checkpoint_is_due(table, tablet)
                if due:
                    self._checkpoint(table, tablet)
                if due or self._compaction_is_due(table, tablet):
                    self._compact(table, tablet, None, prompt=False)
        except (ClosedError, NotFoundError, BucketFailedError):
            return  # closed, dropped or failed meanwhile: its state says so
        except (CorruptionError, OSError):
            # A bucket that is dropped meanwhile takes its files along, and a file that is missing looks like damage.
            if tablet.standing.takes_writes:
                raise

    def _seal(self, table: OpenTable, tablet: Tablet, *, active_too: bool = False) -> None:
        rows = seal(tablet, active_too=active_too)
        self._count(table.info.table_id, seals=1 if rows else 0, rows_sealed=rows)

    def _seal_if_there_is_room(self, table: OpenTable, tablet: Tablet) -> None:
        """Seal all rows, which are about to go; on a full disk they go once others have made room for that."""
        try:
            self._seal(table, tablet, active_too=True)
        except OSError as error:
            if not isinstance(refusal(error, tablet.bucket), DiskFullError):
                raise
            _log.warning("a truncated log keeps its last rows on the disk for now bucket=%s", tablet.bucket)

    def _checkpoint_is_due(self, table: OpenTable, tablet: Tablet) -> bool:
        behind = tablet.view.visible - tablet.state.checkpoint
        if behind == 0:
            return False
        now = self._clock.monotonic_ms()
        last = self._of(table.info.table_id).checkpointed_ms.setdefault(tablet.bucket, now)
        return behind >= self._settings.checkpoint_changes or now - last >= self._settings.checkpoint_interval_ms

    def _compaction_is_due(self, table: OpenTable, tablet: Tablet) -> bool:
        """Tell whether to look again: the base follows the checkpoint, but also the clock and the pins."""
        now = self._clock.monotonic_ms()
        last = self._of(table.info.table_id).compacted_ms.setdefault(tablet.bucket, now)
        return now - last >= COMPACTION_INTERVAL_MS

    def _checkpoint(self, table: OpenTable, tablet: Tablet) -> None:
        if tablet.view.visible == tablet.state.checkpoint:
            return
        done = self._of(table.info.table_id)
        checkpoint(tablet, lambda: self._flush_index([tablet.bucket]))
        self._count(table.info.table_id, checkpoints=1)
        done.checkpointed_ms[tablet.bucket] = self._clock.monotonic_ms()

    def _compact(self, table: OpenTable, tablet: Tablet, target: int | None, *, prompt: bool) -> None:
        done = self._of(table.info.table_id)
        done.compacted_ms[tablet.bucket] = self._clock.monotonic_ms()
        if target is None:
            target = retention_target(tablet, table.info.options, self._clock.earliest_ms())
        reachable = min(target, tablet.state.checkpoint, tablet.pins.floor())
        if reachable <= tablet.pins.base or not (prompt or is_worth(tablet, reachable)):
            reachable = tablet.pins.base
        if compact(tablet, reachable):
            self._count(table.info.table_id, compactions=1)

    def _relieve_memory(self) -> list[Exception]:
        """Seal the largest tails early when all tails together are too large; return what the disk refused."""
        self._written_bytes = 0
        tablets = sorted(self._tables.tablets(), key=lambda pair: pair[1].tail_bytes, reverse=True)
        total = sum(tablet.tail_bytes for _, tablet in tablets)
        refused: list[Exception] = []
        for table, tablet in tablets:
            if total <= self._tail_bytes_max:
                break
            total -= tablet.tail_bytes
            try:
                with self.attending(tablet.bucket):
                    self._seal(table, tablet, active_too=True)
            except OSError as error:
                refused.append(error)
            except (ClosedError, NotFoundError, BucketFailedError):
                continue  # closed, dropped or failed meanwhile: its state says so
        return refused

    def _expire_partitions(self) -> None:
        now = self._clock.earliest_ms()
        for table in self._tables.all():
            table_id, options = table.info.table_id, table.info.options
            if options.log_retention_ms is not None:
                self._catalog.partitions.forget_gone(table_id, now - options.log_retention_ms)
            if options.partition_retention_ms is None:
                continue
            if self._may_be_misled(table, options.partition_retention_ms, now):
                continue
            for partition in table.partitions():
                if partition.created_ms + options.partition_retention_ms > now:
                    continue
                try:
                    dropped = self._tables.drop_partition(table_id, partition)
                except (ClosedError, NotFoundError):
                    break  # the table was closed or dropped meanwhile
                self._count(table_id, partitions_expired=0 if dropped is None else 1)

    def _may_be_misled(self, table: OpenTable, retention_ms: int, now: int) -> bool:
        """Tell whether to wait: a clock that was wrong at the start would have every partition expire at once."""
        done = self._of(table.info.table_id)
        if done.outlived is None:
            stamps = [tablet.state.timestamp_ms for tablet in table.committer.tablets.values()]
            newest = max([*stamps, *(partition.created_ms for partition in table.partitions())], default=now)
            # What was born since the start was stamped by the clock that it expires by.
            done.outlived = newest < self._started_wall_ms and now - newest > retention_ms
            if done.outlived:
                _log.warning(
                    "everything is older than partition.retention; it expires in ten minutes, check the clock table=%s",
                    table.info.path,
                )
        return done.outlived and self._clock.monotonic_ms() - self._started_ms < START_PATIENCE_MS

    def _count(self, table_id: int, **more: int) -> None:
        done = self._of(table_id)
        with self._lock:
            done.counts.update(more)

    def _of(self, table_id: int) -> _Done:
        return self._done.setdefault(table_id, _Done())
