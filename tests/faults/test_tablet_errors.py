"""The disk refuses, fills up or fails to sync: nothing acknowledged is lost, nothing refused stays (I-8)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.memory_key_index import MemoryKeyIndex
from tests.kit.tablet_rig import SMALL, TabletRig
from tests.kit.tablet_writes import RandomWrites, TabletWrite

from penstock.errors import BucketFailedError, UnavailableError
from penstock.model.place.bucket import BucketId
from penstock.model.table.merge_engine import MergeEngine
from penstock.tablet.settings import FsyncMode
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.sealing import seal
from penstock.tablet.tablet import Tablet
from penstock.testing.fault_plan import Operation, SimulatedCrash
from penstock.testing.faulty_disk import FaultyDisk

SHARDS = 4
ROW = {"0": 1, "1": "a", "2": 1}


def is_segment_sync(operation: Operation) -> bool:
    return operation.kind == "sync" and "/segment-" in operation.path


class Bucket:
    """A bucket whose steps are tried again, after a reopening where it failed."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.disk = disk
        self.index = MemoryKeyIndex(chunk_keys=3)
        self.rig = TabletRig(disk, self.index)
        self.writes = RandomWrites(Random(2), MergeEngine.LAST_ROW)

    def steps(self) -> list[Callable[[], object]]:
        def write() -> None:
            self.rig.write([self.writes.next(self.rig.oracle.columns) for _ in range(3)])

        def roll() -> None:
            self.rig.tablet.roll()

        return [
            write,
            write,
            lambda: seal(self.rig.tablet, active_too=True),
            write,
            lambda: checkpoint(self.rig.tablet, self.index.flush),
            write,
            lambda: compact(self.rig.tablet, self.rig.oracle.end),
            roll,
            write,
            self.rig.reopen,
            write,
        ]

    def run(self) -> None:
        for step in self.steps():
            try:
                step()
            except (OSError, BucketFailedError):
                self.repair()
                step()

    def repair(self) -> None:
        """Do what the engine does: reopen a bucket that failed, its log cut at the last acknowledged offset."""
        if self.rig.tablet.standing.takes_writes:
            self.rig.refused()
        else:
            with pytest.raises(BucketFailedError):
                self.rig.tablet.planner()
            self.rig.tablet.log.cut_unacknowledged()
            acknowledged = self.rig.acknowledged
            self.rig.reopen()
            assert self.rig.tablet.view.visible == acknowledged
        self.rig.check(Random(0), looks=1)


def operations() -> int:
    bucket = Bucket(FaultyDisk())
    bucket.run()
    return bucket.disk.operations


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["eio", "enospc"])
@pytest.mark.parametrize("shard", range(SHARDS))
def test_error_at_any_operation_costs_at_most_a_retry(shard: int, error: int) -> None:
    for number in range(shard, operations(), SHARDS):
        for done in (0.0, 0.5):
            print(f"operation={number} done={done}")
            bucket = Bucket(FaultyDisk())
            bucket.disk.fail_at(number, error, done=done)
            bucket.run()
            bucket.rig.check(Random(number))
            bucket.rig.reopen(bucket.disk.after_power_loss(number), bucket.index.after_crash(number))
            bucket.rig.check(Random(number), looks=1)


def test_failed_sync_refuses_writes_until_reopened_and_goes_on_in_a_new_segment() -> None:
    bucket = Bucket(FaultyDisk())
    rig = bucket.rig
    rig.write([TabletWrite("upsert", [ROW])])
    segments = rig.tablet.files.names("segment")
    bucket.disk.fail_when(is_segment_sync, errno.EIO, times=1)

    with pytest.raises(BucketFailedError):
        rig.write([TabletWrite("upsert", [ROW | {"1": "never acknowledged"}])])
    with pytest.raises(BucketFailedError, match="reopen it"):
        rig.tablet.planner()
    rig.refused()
    rig.check_snapshot(1)

    rig.tablet.log.cut_unacknowledged()
    rig.reopen()
    assert rig.tablet.view.visible == 1
    rig.write([TabletWrite("upsert", [ROW | {"1": "b"}])])

    assert len(rig.tablet.files.names("segment")) == len(segments) + 1
    rig.check(Random(0))


@pytest.mark.parametrize("step", [lambda tablet: checkpoint(tablet, lambda: None), seal], ids=["checkpoint", "seal"])
def test_failed_bucket_writes_no_manifest(step: Callable[[Tablet], object]) -> None:
    disk = FaultyDisk()
    rig = TabletRig(disk, MemoryKeyIndex(), settings=replace(SMALL, fsync=FsyncMode.INTERVAL))
    rig.write([TabletWrite("upsert", [ROW])])
    rig.tablet.roll()
    rig.write([TabletWrite("upsert", [ROW])])
    disk.fail_when(is_segment_sync, errno.EIO, times=1)
    with pytest.raises(BucketFailedError):
        rig.tablet.sync_log()

    with pytest.raises(BucketFailedError):
        step(rig.tablet)

    assert rig.tablet.files.names("manifest") == []


def test_full_disk_refuses_writes_and_takes_them_again_when_there_is_room() -> None:
    bucket = Bucket(FaultyDisk(capacity_bytes=30_000))
    rig = bucket.rig
    refused = 0
    for _ in range(60):
        try:
            rig.write([bucket.writes.next(rig.oracle.columns) for _ in range(3)])
        except OSError:
            rig.refused()
            refused += 1
    rig.check(Random(0))
    assert refused > 10
    assert rig.oracle.end > 0

    bucket.disk.capacity_bytes = None
    bucket.run()
    rig.check(Random(0))


@pytest.mark.parametrize("kind", ["data", "ends", "manifest"])
def test_background_step_without_room_leaves_no_file_behind(kind: str) -> None:
    for turn in range(3):
        bucket = Bucket(FaultyDisk())
        for step in bucket.steps():
            skipped = turn
            path = f"/{kind}-"

            def matches(operation: Operation, path: str = path) -> bool:
                nonlocal skipped
                if operation.kind == "append" and path in operation.path:
                    skipped -= 1
                return skipped < 0

            bucket.disk.fail_when(matches, errno.ENOSPC, done=0.5, times=1)
            with suppress(OSError):
                step()
            bucket.disk.clear_faults()
            bucket.rig.check_files()
        bucket.rig.check(Random(turn))


def test_group_refused_in_its_second_batch_leaves_nothing_and_the_next_goes_on() -> None:
    bucket = Bucket(FaultyDisk())
    rig = bucket.rig
    rig.write([TabletWrite("upsert", [ROW])])
    bucket.disk.fail_at(bucket.disk.operations, errno.ENOSPC, done=0.75)

    with pytest.raises(OSError, match="No space"):
        rig.write([TabletWrite("upsert", [ROW | {"1": text}]) for text in ("b", "c")])
    rig.refused()

    assert rig.tablet.standing.takes_writes
    rig.write([TabletWrite("upsert", [ROW | {"1": "d"}])])
    rig.check(Random(0))
    rig.reopen(bucket.disk.after_power_loss(3))
    rig.check(Random(0))


def test_half_a_segment_that_could_not_be_removed_does_not_outlive_the_next_attempt() -> None:
    bucket = Bucket(FaultyDisk())
    rig = bucket.rig
    bucket.disk.fail_when(is_segment_sync, errno.EIO, times=1)
    bucket.disk.fail_when(lambda operation: operation.kind == "remove", errno.EIO, times=1)
    with pytest.raises(OSError, match="Input/output"):
        rig.write([TabletWrite("upsert", [ROW])])
    rig.refused()

    rig.write([TabletWrite("upsert", [ROW])])

    assert len(rig.tablet.files.names("segment")) == 1
    rig.reopen()
    rig.check(Random(0))


class RefusingIndex(MemoryKeyIndex):
    """An index that fails when it is told to."""

    refuses = False

    def apply(self, bucket: BucketId, keys: pa.BinaryArray, offsets: np.typing.NDArray[np.int64], applied: int) -> None:
        if self.refuses:
            raise UnavailableError("no space left for the index")
        super().apply(bucket, keys, offsets, applied)


def test_index_that_fails_after_the_log_is_durable_fails_the_bucket_and_loses_nothing() -> None:
    index = RefusingIndex()
    rig = TabletRig(FaultyDisk(), index)
    rig.write([TabletWrite("upsert", [ROW])])
    index.refuses = True

    with pytest.raises(BucketFailedError):
        rig.write([TabletWrite("upsert", [ROW | {"1": "b"}])])
    assert rig.tablet.view.visible == 1
    with pytest.raises(BucketFailedError):
        rig.tablet.planner()

    index.refuses = False
    rig.tablet.log.cut_unacknowledged()
    rig.reopen()
    assert rig.tablet.view.visible == 2
    rig.check(Random(0))


def live_with(mode: FsyncMode, seed: int) -> None:
    """Write, sync now and then, crash, and compare what is there with what was synced."""
    random = Random(seed)
    disk, index = FaultyDisk(), MemoryKeyIndex(chunk_keys=3)
    rig = TabletRig(disk, index, settings=replace(SMALL, fsync=mode))
    writes = RandomWrites(random, MergeEngine.LAST_ROW)
    disk.crash_at(random.randrange(90))
    with suppress(SimulatedCrash):
        for _ in range(4):
            rig.write([writes.next(rig.oracle.columns) for _ in range(2)])
            rig.write([writes.next(rig.oracle.columns)])
            if random.random() < 0.5:
                seal(rig.tablet, active_too=random.random() < 0.5)
            if random.random() < 0.5:
                checkpoint(rig.tablet, index.flush)
                rig.synced()
                compact(rig.tablet, rig.oracle.end)
    written = rig.oracle.end
    if random.random() < 0.3:
        rig.reopen(disk.after_kill(), index.after_crash(seed))
        assert disk.crashed or rig.oracle.end == written
    else:
        rig.reopen(disk.after_power_loss(seed), index.after_crash(seed))
    rig.check(random)
    rig.write([writes.next(rig.oracle.columns)])
    rig.tablet.sync_log()
    rig.synced()
    rig.check(random, looks=1)


@pytest.mark.parametrize("mode", [FsyncMode.INTERVAL, FsyncMode.NEVER])
@pytest.mark.parametrize("shard", range(2))
def test_weaker_fsync_loses_only_what_was_written_since_the_last_sync(mode: FsyncMode, shard: int) -> None:
    for seed in range(shard, 120, 2):
        print(f"seed={seed}")
        live_with(mode, seed)


def change_modes(seed: int) -> None:
    """Live several lives, each ended by a kill or a power loss, each with another fsync mode than the one before."""
    random = Random(seed)
    disk, index = FaultyDisk(), MemoryKeyIndex(chunk_keys=3)
    rig = TabletRig(disk, index, settings=replace(SMALL, fsync=random.choice(list(FsyncMode))))
    writes = RandomWrites(random, MergeEngine.LAST_ROW)
    for life in range(5):
        for _ in range(random.randrange(5)):
            rig.write([writes.next(rig.oracle.columns) for _ in range(random.randint(1, 3))])
            if random.random() < 0.3:
                # As another bucket's checkpoint does: whatever is in the log, synced or not.
                index.flush()
            if random.random() < 0.2:
                rig.tablet.sync_log()
                rig.synced()
        after = disk.after_kill() if random.random() < 0.3 else disk.after_power_loss(seed + life)
        disk, index = after, index.after_crash(seed + life)
        rig.settings = replace(SMALL, fsync=random.choice(list(FsyncMode)))
        rig.reopen(disk, index)
        rig.check(random, looks=1)


@pytest.mark.parametrize("shard", range(4))
def test_fsync_mode_may_change_after_any_crash(shard: int) -> None:
    for seed in range(shard, 400, 4):
        print(f"seed={seed}")
        change_modes(seed)
