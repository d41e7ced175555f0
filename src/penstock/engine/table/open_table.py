"""A table that is open: its buckets, its committer, and the names of both sides.

All buckets of a table are opened together; one that was never written costs no file. The table's
view is the committer's: one vector of buckets, replaced as a whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.catalog.terms import Terms
from penstock.engine.commit.committer import Committer, TableView
from penstock.engine.commit.group import QueuedWrite, Ranges
from penstock.engine.commit.router import NO_PARTITION, WriteRouter
from penstock.engine.commit.segment_log import SegmentLog
from penstock.engine.commit.sync_pool import SyncPool
from penstock.engine.table.bucket_names import naming
from penstock.engine.table.dropped_buckets import DroppedBuckets
from penstock.errors import (
    BucketFailedError,
    InvalidError,
    PartitionNotFoundError,
    PenstockError,
    TableNotFoundError,
    UnsupportedError,
)
from penstock.model.node.calls import WriteCall, WriteResult
from penstock.model.node.log_state import GonePartition, gone_with
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.model.schema.schema import Schema
from penstock.model.table.partition import PartitionInfo
from penstock.model.table.table import TableInfo
from penstock.runtime.clock import Clock
from penstock.tablet.merge.factory import merge_rule
from penstock.tablet.merge.rule import MergeRule
from penstock.tablet.schema import TabletSchema
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.row_age import RowAge
from penstock.tablet.view.view import TabletView

OpenTablets = Callable[[Mapping[BucketId, int], TabletSchema, MergeRule], dict[BucketId, Tablet]]
"""Open buckets whose logs begin at these offsets."""


class OpenTable:
    """One open table. Thread-safe: a lock for names and partitions, and the committer for all that is in buckets."""

    def __init__(
        self,
        info: TableInfo,
        catalog: Catalog,
        open_tablets: OpenTablets,
        *,
        terms: Terms,
        clock: Clock,
        syncs: SyncPool,
    ) -> None:
        self.info = info
        self.schema = TabletSchema.of_table(info)
        self.committer = Committer(str(info.table_id), terms, clock, SegmentLog(syncs))
        self._catalog = catalog
        self._open_tablets = open_tablets
        self._terms = terms
        self.dropped = DroppedBuckets()
        self._lock = threading.RLock()
        self._partitions: dict[int, PartitionInfo] = {}
        self._names: dict[BucketId, TableBucket] = {}
        self._ids: dict[TableBucket, BucketId] = {}
        self._router = WriteRouter(info, self.schema, self._ensure_partitions)
        if info.partitioned:
            self._take_up(catalog.partitions.of(info.table_id, dropped=True))
        else:
            self._open({None: [BucketId(info.table_id, 0, bucket) for bucket in range(info.buckets)]})

    @property
    def view(self) -> TableView:
        """Return the present view of all buckets."""
        return self.committer.view

    def name(self, bucket: BucketId) -> TableBucket:
        """Return how users name a bucket.

        Raises:
            PartitionNotFoundError: its partition was dropped, and it is read no more.
        """
        found = self.find_name(bucket)
        if found is None:
            raise PartitionNotFoundError("the partition was dropped", table=self.info.path)
        return found

    def find_name(self, bucket: BucketId) -> TableBucket | None:
        """Return how users name a bucket; None if its partition was dropped, and it is read no more."""
        return self._names.get(bucket) or self.dropped.name(bucket)

    def tablet(self, bucket: BucketId) -> Tablet | None:
        """Return a bucket that is open here, also one that left with its partition."""
        found = self.committer.tablets.get(bucket)
        return self.dropped.tablet(bucket) if found is None else found

    def view_of(self, bucket: BucketId) -> TabletView | None:
        """Return the present view of one bucket, also of one that left with its partition."""
        found = self.view.get(bucket)
        if found is None and (dropped := self.dropped.tablet(bucket)) is not None:
            found = dropped.view
        return found

    def buckets(self) -> list[TableBucket]:
        """Return the names of all buckets, sorted."""
        with self._lock:
            return sorted(self._ids, key=lambda b: (b.partition or "", b.bucket))

    def bucket_id(self, bucket: TableBucket) -> BucketId:
        """Return the id of a bucket.

        Raises:
            PartitionNotFoundError: the partition does not exist (any more).
            InvalidError: the table has no such bucket.
        """
        found = self.find_id(bucket)
        if found is None:
            raise PartitionNotFoundError("no such partition", table=self.info.path, partition=bucket.partition)
        return found

    def find_id(self, bucket: TableBucket) -> BucketId | None:
        """Return the id of a bucket; None if its partition does not exist (any more).

        Raises:
            InvalidError: the table has no such bucket.
        """
        found = self._ids.get(bucket)
        if found is None and (
            bucket.table != self.info.path
            or (bucket.partition is None) == self.info.partitioned
            or not 0 <= bucket.bucket < self.info.buckets
        ):
            raise InvalidError("the table has no such bucket", table=self.info.path, bucket=bucket)
        return found

    def first_offset(self, bucket: BucketId) -> int:
        """Return where the log of a bucket began."""
        partition = self._partitions.get(bucket.partition_id)
        return 0 if partition is None else partition.first_offset

    def gone_with(self, bucket: TableBucket, offset: int) -> GonePartition | None:
        """Return the dropped partition whose bucket had this offset, None if nothing is known of it."""
        return gone_with(self._catalog.partitions.gone(self.info.table_id), bucket, offset)

    def write(
        self, call: WriteCall, principal: str, on_written: Callable[[Tablet], object] | None = None
    ) -> WriteResult:
        """Apply a write; return when it is durable and visible. `on_written` is told of each bucket that has changes.

        Raises:
            PenstockError: as `WriteRouter.route` and `Committer.write` have it.
        """
        queued = self.route(call)
        guard = self.committer.guard
        if call.owner is not None:
            if guard is None:
                raise UnsupportedError("this table keeps no owners; open it through an engine", table=self.info.path)
            guard.stamp(call, queued, principal)
        # Before it is written: a partition may be dropped as soon as it is.
        names = {bucket: self.name(bucket) for bucket in queued.parts}
        with naming(lambda bucket: names.get(bucket) or self.name(bucket)):
            ranges = self._write(queued)
        changes = sum(end - start for start, end in ranges.values())
        offsets = {names[bucket]: span for bucket, span in sorted(ranges.items())}
        if guard is not None and call.owner is not None:
            guard.applied(call, queued)
        if on_written is not None:
            tablets = self.committer.tablets
            # What was written is told as written, also if its partition is dropped right after.
            for bucket in ranges:
                if bucket in tablets:
                    on_written(tablets[bucket])
        return WriteResult(queued.rows, changes, queued.ignored_beside(changes), offsets, done=queued.late)

    def _write(self, queued: QueuedWrite) -> Ranges:
        if queued.parts:
            return self.committer.write(queued)
        if self.committer.guard is not None:
            self.committer.guard.check(queued)  # whose owner was fenced hears of it, also if he writes nothing
        if queued.expectation is not None:
            queued.expectation.check_nowhere()
        return {}

    def route(self, call: WriteCall) -> QueuedWrite:
        """Return a call as requests per bucket.

        Raises:
            InvalidError: as `WriteRouter.route` has it.
        """
        return self._router.route(call, self.known_schema(call.schema_id))

    def has(self, bucket: BucketId) -> bool:
        """Tell whether a bucket is one of the table's, led here or not."""
        return bucket in self._names

    def known_schema(self, schema_id: int) -> Schema:
        """Return the schema that a handle opened with."""
        if schema_id == self.info.schema_id:
            return self.info.schema
        return self._catalog.schema(self.info.table_id, schema_id)

    def exclusively(self, step: Callable[[], TableInfo]) -> TableInfo:
        """Run a step in the committer while no bucket comes or goes."""
        with self._lock:
            return self.committer.run(step)

    def take_info(self, info: TableInfo) -> None:
        """Go by a new schema or new properties from now on. Committer only."""
        schema, rule, row_age = TabletSchema.of_table(info), merge_rule(info), RowAge.of(info.options.row_ttl_ms)
        # Readers look at a view first and at this then: no view lacks a column that is still shown to them.
        self.info, self.schema = info, schema
        self._router = WriteRouter(info, schema, self._ensure_partitions)
        for tablet in self.committer.tablets.values():
            tablet.rule, tablet.row_age = rule, row_age
            if tablet.schema.schema_id != schema.schema_id and tablet.standing.takes_writes:
                tablet.set_schema(schema, rule)

    def create_partition(self, values: Mapping[str, object], *, if_not_exists: bool = False) -> PartitionInfo:
        """Create a partition and open its buckets.

        Raises:
            PenstockError: as `Partitions.create` has it.
        """
        with self._lock:
            partition = self._catalog.partitions.create(self.info.table_id, values, if_not_exists=if_not_exists)
            self._take_up([partition])
            return partition

    def drop_partition(
        self, values: Mapping[str, object] | PartitionInfo, *, if_exists: bool = False
    ) -> PartitionInfo | None:
        """Drop a partition and return it: its buckets leave, those who read them can go on until they are removed.

        Raises:
            PenstockError: as `Partitions.present` has it.
        """
        with self._lock:
            partition = self._catalog.partitions.present(self.info.table_id, values, if_exists=if_exists)
            if partition is not None:
                ids = self._ids_of(partition)
                self.committer.run(lambda: self._leave(partition, ids))
                for bucket in ids:
                    del self._ids[self._names.pop(bucket)]
                del self._partitions[partition.partition_id]
            return partition

    def _leave(self, partition: PartitionInfo, ids: list[BucketId]) -> None:
        """Fix where a partition ends: a write is before that, or comes too late. Committer only."""
        tablets = {bucket: self.committer.tablets.get(bucket) for bucket in ids}
        # One that is not led just now is opened to see where it ends.
        closed = self._opened({partition: [bucket for bucket, tablet in tablets.items() if tablet is None]})
        leaving = [tablet or closed[bucket] for bucket, tablet in tablets.items()]
        ends = [tablet.view.visible for tablet in leaving]
        self._catalog.partitions.drop(partition, ends, now_ms=self.committer.stamp_ms())
        self.dropped.add({self._names[tablet.bucket]: tablet for tablet in leaving})
        self.committer.remove_tablets(ids)

    def births_and_view(self) -> tuple[int, TableView]:
        """Return the id that the next partition gets, and a view that has every one born before and not dropped."""
        with self._lock:
            return self._catalog.partitions.births(self.info.table_id), self.view

    def partitions_known_since(self, now_ms: int) -> int:
        """Return the moment from which on the table had no partition but those that there are now, and younger ones."""
        kept_ms = self.info.options.log_retention_ms
        return self._catalog.partitions.first_known_ms(self.info.table_id, 0 if kept_ms is None else now_ms - kept_ms)

    def births(self) -> int:
        """Return the id that the next partition gets."""
        return self._catalog.partitions.births(self.info.table_id)

    def open_left(self, partition: PartitionInfo) -> None:
        """Open the buckets of a partition that was dropped before, for those who hold it."""
        with self._lock:
            opened = self._opened({partition: self._ids_of(partition)})
            self.dropped.add({TableBucket(self.info.path, partition.name, b.bucket): t for b, t in opened.items()})

    def _ids_of(self, partition: PartitionInfo) -> list[BucketId]:
        return [BucketId(self.info.table_id, partition.partition_id, bucket) for bucket in range(self.info.buckets)]

    def partitions(self) -> list[PartitionInfo]:
        """Return the partitions that are open."""
        with self._lock:
            return list(self._partitions.values())

    def reopen(self, bucket: BucketId) -> None:
        """Reopen a bucket that failed: its log is cut at the last acknowledged offset (I-8).

        Raises:
            OSError: as the disk gave it; the bucket stays failed.
        """

        def again() -> None:
            failed = self.committer.tablets[bucket]
            if failed.standing.takes_writes:
                return
            self.committer.take_back_all()
            failed.log.cut_unacknowledged()
            tablet = self._reopened(bucket)[bucket]
            tablet.adopt_pins(failed)
            self.committer.replace_tablet(tablet)

        self.committer.run(again)

    def step_down(self, bucket: BucketId) -> None:
        """Stop leading a bucket: it vanishes from the view, and calls for it are answered NotLeaderError."""
        for tablet in self.committer.remove_tablets([bucket]):
            tablet.close()

    def take_up(self, bucket: BucketId) -> int:
        """Lead a bucket again, in a new term; return the term. A bucket that is led stays as it is."""
        with self._lock:
            if bucket not in self._names:
                raise InvalidError("the table has no such bucket", table=self.info.path, bucket=bucket)
            if bucket not in self.committer.tablets:
                self.committer.run(self.committer.take_back_all)
                self._terms.advance(bucket)
                self.committer.add_tablets(self._reopened(bucket))
            return self._terms.of(bucket)

    def close(self, reason: PenstockError, *, finish: Callable[[Tablet], None] | None = None) -> None:
        """Refuse further calls, finish those under way, let go of the buckets; idempotent."""
        self.committer.close(reason)
        for tablet in self.committer.tablets.values():
            if finish is not None and tablet.standing.takes_writes:
                finish(tablet)
            tablet.close()

    def drop(self) -> None:
        """Let go of a table whose files are about to be removed."""
        self.committer.close(TableNotFoundError("the table was dropped", table=self.info.path))
        for tablet in (*self.committer.tablets.values(), *self.dropped.tablets()):
            tablet.abandon()

    def retire(self) -> None:
        """Take no more calls, but stay readable for those who hold the table, which was dropped."""
        self.committer.close(TableNotFoundError("the table was dropped", table=self.info.path))
        for tablet in self.committer.tablets.values():
            # One that failed has shown all that it will ever show.
            with suppress(BucketFailedError):
                tablet.close()

    def _ensure_partitions(self, names: Sequence[str], made: Sequence[bool]) -> list[int]:
        with self._lock:
            ids = {partition.name: partition.partition_id for partition in self._partitions.values()}
            missing = [name for name, is_made in zip(names, made, strict=True) if is_made and name not in ids]
            if missing:
                if not self.info.options.partition_auto_create:
                    raise PartitionNotFoundError(
                        "no such partition, and partition.auto-create is off; create it first",
                        table=self.info.path,
                        partition=missing[0],
                    )
                self._take_up(self._catalog.partitions.ensure(self.info.table_id, missing))
                ids = {partition.name: partition.partition_id for partition in self._partitions.values()}
            return [ids.get(name, NO_PARTITION) for name in names]

    def _take_up(self, partitions: Sequence[PartitionInfo]) -> None:
        with self._lock:
            self._open({p: self._ids_of(p) for p in partitions if p.partition_id not in self._partitions})

    def _open(self, buckets: Mapping[PartitionInfo | None, Sequence[BucketId]]) -> None:
        tablets = self._opened(buckets)
        # Before their names: who stands in an earlier life of one must not take the new bucket for his.
        self._partitions |= {partition.partition_id: partition for partition in buckets if partition is not None}
        for partition, ids in buckets.items():
            name = None if partition is None else partition.name
            for bucket in ids:
                self._names[bucket] = TableBucket(self.info.path, name, bucket.bucket)
                self._ids[self._names[bucket]] = bucket
        self.committer.add_tablets(tablets)

    def _reopened(self, bucket: BucketId) -> dict[BucketId, Tablet]:
        return self._opened({self._partitions.get(bucket.partition_id): [bucket]})

    def _opened(self, buckets: Mapping[PartitionInfo | None, Sequence[BucketId]]) -> dict[BucketId, Tablet]:
        starts: dict[BucketId, int] = {}
        for partition, ids in buckets.items():
            assert (partition is None) == (not self.info.partitioned), "a bucket of a partition is opened with it"
            starts |= dict.fromkeys(ids, 0 if partition is None else partition.first_offset)
        opened = self._open_tablets(starts, self.schema, merge_rule(self.info))
        for tablet in opened.values():
            tablet.row_age = RowAge.of(self.info.options.row_ttl_ms)
        return opened
