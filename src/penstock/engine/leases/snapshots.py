"""Snapshots of tables: taken on demand and on an interval, all buckets at one cut; the newest are kept.

A bucket in which nothing changed keeps its snapshot: its offset is that of the cut. So the newest
snapshots of a table are always those of one cut.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from typing import Final
from weakref import WeakKeyDictionary

from penstock.codec.stored.snapshot_file import SnapshotFile
from penstock.engine.settings import Settings
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.open_tables import OpenTables
from penstock.engine.table.pins import pin, unpin
from penstock.engine.upkeep.maintenance import FlushIndex, Maintenance
from penstock.errors import (
    BucketFailedError,
    CorruptionError,
    DiskFullError,
    NotLeaderError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
    PenstockError,
    UnavailableError,
    UnsupportedError,
)
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.runtime.clock import Clock
from penstock.tablet.steps.snapshotting import take_snapshot
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.pins import PinHolder, PinKind

_log = logging.getLogger("penstock")
HOLDER: Final = PinHolder(PinKind.SNAPSHOTTING)
AT_ONCE_MAX: Final = 64


class Snapshots:
    """Takes and keeps the snapshots of a node.

    Thread-safe: a lock for each table lets one snapshot of it be taken at a time.
    """

    def __init__(
        self,
        tables: OpenTables,
        settings: Settings,
        clock: Clock,
        maintenance: Maintenance,
        *,
        flush_index: FlushIndex,
    ) -> None:
        self._tables = tables
        self._settings = settings
        self._clock = clock
        self._maintenance = maintenance
        self._flush_index = flush_index
        self._lock = threading.Lock()
        self._taking: WeakKeyDictionary[OpenTable, threading.RLock] = WeakKeyDictionary()
        self._looked_ms: dict[int, int] = {}

    def create(self, table: OpenTable) -> dict[BucketId, SnapshotFile]:
        """Snapshot every bucket of a table at the present cut; return the newest snapshot of each.

        Raises:
            UnsupportedError: it is a log table.
            BucketFailedError: a bucket has failed.
            UnavailableError: the disk refused.
        """
        if not table.info.keyed:
            raise UnsupportedError("a log table has no snapshots; lease its cut", table=table.info.path)
        return self._take(table, set(table.view))

    def latest(
        self, table: OpenTable, claim: Callable[[Tablet, SnapshotFile], None]
    ) -> BucketFailedError | UnavailableError | None:
        """Claim the newest snapshot of every bucket, all of one cut; where there is none they are taken first.

        Return why a bucket has none.

        Raises:
            UnsupportedError: it is a log table.
        """
        refused = None
        if not table.info.keyed:
            raise UnsupportedError("a log table has no snapshots; lease its cut", table=table.info.path)
        with self._turn(table):
            tablets = list(table.committer.tablets.values())
            if any(tablet.snapshots.newest() is None for tablet in tablets):
                try:
                    self.create(table)
                except (BucketFailedError, UnavailableError) as error:
                    refused = error
            for tablet in tablets:
                newest = tablet.snapshots.newest()
                if newest is not None:
                    claim(tablet, newest)
        return refused

    def run(self) -> None:
        """Take the snapshots that are due, and remove those that are needed no more."""
        for table in self._tables.all():
            try:
                if self._is_due(table):
                    self._take(table, _changed(table))
                for tablet in list(table.committer.tablets.values()):
                    self.prune(table, tablet)
            except PenstockError as error:
                _log.warning("no snapshot was taken table=%s reason=%s", table.info.path, error)

    def prune(self, table: OpenTable, tablet: Tablet) -> None:
        """Remove the snapshots of a bucket that are neither held nor among the newest."""
        try:
            tablet.snapshots.prune(self.retained(table))
        except OSError as error:
            _log.warning("a snapshot was not removed yet bucket=%s reason=%s", tablet.bucket, error)

    def retained(self, table: OpenTable) -> int:
        """Return how many snapshots of each bucket of a table are kept."""
        return table.info.options.kv_snapshot_num_retained or self._settings.snapshots_retained

    def _is_due(self, table: OpenTable) -> bool:
        if not table.info.keyed:
            return False
        interval_ms = table.info.options.kv_snapshot_interval_ms or self._settings.snapshot_interval_ms
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms.setdefault(table.info.table_id, now_ms) < interval_ms:
            return False
        self._looked_ms[table.info.table_id] = now_ms
        return True

    def _turn(self, table: OpenTable) -> threading.RLock:
        """Return what those take who snapshot a table: one at a time, each table for itself."""
        with self._lock:
            return self._taking.setdefault(table, threading.RLock())

    def _take(self, table: OpenTable, buckets: Collection[BucketId]) -> dict[BucketId, SnapshotFile]:
        with self._turn(table):
            offsets = _pin_cut(table, buckets)
            try:
                taken, refused = self._take_at(table, offsets)
            finally:
                unpin(table, HOLDER, offsets)
        for bucket in taken:
            tablet = table.tablet(bucket)
            if tablet is not None:
                self.prune(table, tablet)
        if refused is not None:
            raise refused
        return taken

    def _take_at(
        self, table: OpenTable, offsets: Mapping[BucketId, int]
    ) -> tuple[dict[BucketId, SnapshotFile], PenstockError | None]:
        """Snapshot buckets at a cut that is pinned; return them, and why one was not."""
        taken: dict[BucketId, SnapshotFile] = {}
        refused: list[PenstockError] = []
        described = table.info.to_json()
        # Once after the cut is enough for all: the base of a bucket passes no snapshot, and so not its index.
        flush = cache(partial(self._flush_index, offsets.keys()))

        def take(bucket: BucketId, offset: int) -> None:
            tablet = table.committer.tablets.get(bucket)
            if tablet is None:
                return
            try:
                # No caller waits for what is done to another bucket, neither here nor in the background.
                with self._maintenance.attending(bucket):
                    taken[bucket] = take_snapshot(
                        tablet,
                        offset,
                        flush,
                        created_ms=self._clock.wall_ms(),
                        table=described,
                        partition=table.name(bucket).partition,
                    )
            except (OSError, BucketFailedError, CorruptionError, PartitionNotFoundError) as error:
                # What went with its partition meanwhile is neither refused nor damaged.
                if table.committer.tablets.get(bucket) is tablet:
                    if not isinstance(error, OSError | BucketFailedError):
                        raise
                    refused.append(_refusal(error, table.name(bucket)))

        empty = {bucket: at for bucket, at in offsets.items() if at == bucket.first_offset(at)}
        for bucket, offset in offsets.items():
            if bucket not in empty:
                take(bucket, offset)
        # Of a bucket that was never written there is a small file to sync, and nothing else to do. Some at a time,
        # for the writers of the node sync by the same threads.
        steps = [partial(take, *item) for item in empty.items()]
        for start in range(0, len(steps), AT_ONCE_MAX):
            for failure in self._tables.syncs.run_all(steps[start : start + AT_ONCE_MAX]):
                if failure is not None:
                    raise failure
        return taken, refused[0] if refused else None


def _pin_cut(table: OpenTable, buckets: Collection[BucketId]) -> dict[BucketId, int]:
    """Pin what one view shows of some buckets; return it."""
    while True:
        offsets = {bucket: view.visible for bucket, view in table.view.items() if bucket in buckets}
        try:
            pin(table, HOLDER, offsets)
        except (OffsetOutOfRangeError, NotLeaderError):
            # Compaction passed, or a bucket went, between view and pin; the next view is beyond it.
            continue
        return offsets


def _changed(table: OpenTable) -> Collection[BucketId]:
    """Return the buckets that have something to snapshot; none if all is as it was."""
    cut = {b: view.visible for b, view in table.view.items() if view.visible > b.first_offset(view.base)}
    newest = {bucket: _newest_offset(table, bucket) for bucket in cut}
    return cut.keys() if cut != newest else ()


def _newest_offset(table: OpenTable, bucket: BucketId) -> int | None:
    tablet = table.tablet(bucket)
    newest = None if tablet is None else tablet.snapshots.newest()
    return None if newest is None else newest.offset


def _refusal(error: OSError | BucketFailedError, bucket: TableBucket) -> PenstockError:
    if isinstance(error, BucketFailedError):
        return error
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        refused: PenstockError = DiskFullError("no space left for a snapshot; free some and try again", bucket=bucket)
    else:
        refused = UnavailableError("disk refused the snapshot; try again", bucket=bucket, error=str(error))
    refused.__cause__ = error
    return refused
