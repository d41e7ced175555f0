"""The front: the same answers as the index below would give, whatever is in memory and whatever is not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.memory_key_index import MemoryKeyIndex
from tests.kit.tablet_rig import TabletRig
from tests.kit.tablet_writes import RandomWrites

from penstock.errors import DiskFullError, InvalidError
from penstock.index.front.front import FrontedKeyIndex
from penstock.index.front.front_settings import FrontSettings
from penstock.index.key_index import Offsets
from penstock.model.place.bucket import BucketId
from penstock.model.table.merge_engine import MergeEngine
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.sealing import seal
from penstock.testing.faulty_disk import FaultyDisk

BUCKET = BucketId(1, 0, 0)
OTHER = BucketId(1, 0, 1)
TINY = FrontSettings(table_bytes_max=5_000, dirty_bytes_max=2_000, drain_rows_max=40)
FORGETFUL = FrontSettings(table_bytes_max=0, dirty_bytes_max=0, drain_rows_max=1)
SETTINGS = pytest.mark.parametrize("settings", [FrontSettings(), TINY, FORGETFUL], ids=["large", "tiny", "forgetful"])


class WatchedIndex(MemoryKeyIndex):
    """An index that counts its reads, may be full, and lets something happen behind a reader's back."""

    def __init__(self) -> None:
        super().__init__(chunk_keys=2)
        self.reads = 0
        self.writes_left: int | None = None
        self.after_read: Callable[[], None] | None = None

    def get_many(self, bucket: BucketId, keys: pa.BinaryArray) -> Offsets:
        self.reads += 1
        found = super().get_many(bucket, keys)
        if self.after_read is not None:
            happen, self.after_read = self.after_read, None
            happen()
        return found

    def apply(self, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        if self.writes_left is not None:
            if self.writes_left == 0:
                raise DiskFullError("no space left for the index; free some and try again")
            self.writes_left -= 1
        super().apply(bucket, keys, offsets, applied)

    def apply_run(self, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        # In pieces, so that it may fail in the middle.
        before = self.applied(bucket)
        for start in range(0, max(len(keys), 1), 30):
            end = start + 30
            self.apply(bucket, keys[start:end], offsets[start:end], applied if end >= len(keys) else before)


def numbers(start: int, end: int) -> pa.BinaryArray:
    return pa.array([b"%08d" % n for n in range(start, end)], pa.binary())


def apply_range(index: FrontedKeyIndex, start: int, end: int, bucket: BucketId = BUCKET) -> None:
    index.apply(bucket, numbers(start, end), np.arange(start, end), end)


def random_key(random: Random, *, same_width: bool) -> bytes:
    if same_width:
        return b"%08d" % random.randrange(2_000)
    return b"%0*d" % (random.choice((1, 2, 2, 2, 9, 600)), random.randrange(400))


def play(random: Random, index: FrontedKeyIndex, oracle: MemoryKeyIndex, *, same_width: bool) -> None:
    """Do the same to both, and compare."""
    bucket = random.choice((BUCKET, BUCKET, OTHER))
    count = random.choice((0, 1, 3, 40, 40, 90, 90, 600))
    keys = pa.array(sorted({random_key(random, same_width=same_width) for _ in range(count)}), pa.binary())
    step = random.random()
    if step < 0.45:
        applied = oracle.applied(bucket) + len(keys)
        offsets = np.array([random.choice((-1, random.randrange(1_000_000))) for _ in keys], np.int64)
        index.apply(bucket, keys, offsets, applied)
        oracle.apply(bucket, keys, offsets, applied)
    elif step < 0.75:
        assert index.get_many(bucket, keys).tolist() == oracle.get_many(bucket, keys).tolist()
    elif step < 0.9:
        prefix, limit = random.choice((b"", b"0", b"3", b"0000001")), random.choice((None, 0, 1, 5))
        found, expected = index.prefix(bucket, prefix, limit), oracle.prefix(bucket, prefix, limit)
        assert (found[0].to_pylist(), found[1].tolist()) == (expected[0].to_pylist(), expected[1].tolist())
    elif step < 0.97:
        index.flush()
    else:
        index.drop(bucket)
        oracle.drop(bucket)
    assert index.applied(bucket) == oracle.applied(bucket)


@SETTINGS
@pytest.mark.parametrize("same_width", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_random_calls_are_answered_as_without_a_front(settings: FrontSettings, seed: int, *, same_width: bool) -> None:
    print(f"seed={seed}")
    random = Random(seed)
    below, oracle = MemoryKeyIndex(chunk_keys=2), MemoryKeyIndex()
    index = FrontedKeyIndex(below, settings)

    for _ in range(150):
        play(random, index, oracle, same_width=same_width)
        if random.random() < 0.03:
            # Another process finds what was flushed, and no front.
            index.flush()
            below = below.after_crash(seed)
            index = FrontedKeyIndex(below, settings)


@SETTINGS
@pytest.mark.parametrize("seed", range(8))
def test_a_bucket_lives_through_crashes_with_what_the_index_below_kept(settings: FrontSettings, seed: int) -> None:
    print(f"seed={seed}")
    random = Random(seed)
    below = MemoryKeyIndex(chunk_keys=3)
    disk = FaultyDisk()
    rig = TabletRig(disk, FrontedKeyIndex(below, settings))
    writes = RandomWrites(random, MergeEngine.LAST_ROW)

    for _ in range(6):
        for _ in range(random.randint(1, 6)):
            rig.write([writes.next(rig.oracle.columns) for _ in range(random.randint(1, 3))])
        if random.random() < 0.5:
            seal(rig.tablet, active_too=True)
        if random.random() < 0.4:
            checkpoint(rig.tablet, rig.index.flush)
            compact(rig.tablet, rig.oracle.end)
        rig.check(random, looks=1)
        if random.random() < 0.6:
            disk, below = disk.after_power_loss(seed), below.after_crash(random.randrange(1_000))
            rig.reopen(disk, FrontedKeyIndex(below, settings))
            rig.check(random, looks=1)


def test_a_bucket_that_was_empty_is_never_asked_for_below() -> None:
    below = WatchedIndex()
    index = FrontedKeyIndex(below)

    apply_range(index, 0, 100)
    index.flush()
    index.get_many(BUCKET, numbers(0, 200))
    index.get_many(BUCKET, numbers(90, 110))

    assert below.reads == 0


def test_what_was_found_below_is_not_asked_for_again() -> None:
    below = WatchedIndex()
    below.apply(BUCKET, numbers(0, 100), np.arange(100), 100)
    index = FrontedKeyIndex(below)

    for _ in range(2):
        assert index.get_many(BUCKET, numbers(0, 100)).tolist() == list(range(100))

    assert below.reads == 1


@pytest.mark.parametrize("forgets", [False, True])
def test_a_reader_that_is_overtaken_does_not_bring_the_past_back(*, forgets: bool) -> None:
    below = WatchedIndex()
    below.apply(BUCKET, numbers(0, 250), np.arange(250), 250)
    index = FrontedKeyIndex(below)
    # Enough that the table need not grow any more, which would be a reason of its own not to remember.
    index.get_many(BUCKET, numbers(0, 200))

    def overtake() -> None:
        index.apply(BUCKET, numbers(200, 250), np.arange(1_200, 1_250), 1_250)
        if forgets:
            index.flush()
            assert index._give_up()

    below.after_read = overtake
    index.get_many(BUCKET, numbers(200, 250))

    assert index.get_many(BUCKET, numbers(200, 250)).tolist() == list(range(1_200, 1_250))


def test_flush_of_some_buckets_leaves_the_others_for_later() -> None:
    below = MemoryKeyIndex()
    index = FrontedKeyIndex(below)
    for bucket in (BUCKET, OTHER):
        apply_range(index, 0, 100, bucket)

    index.flush([BUCKET])

    assert (below.applied(BUCKET), below.applied(OTHER)) == (100, 0)
    index.flush()
    assert below.applied(OTHER) == 100


def test_nothing_is_below_before_a_flush_and_each_key_once_after_it() -> None:
    below = MemoryKeyIndex()
    index = FrontedKeyIndex(below)
    for n in range(5):
        index.apply(BUCKET, numbers(0, 100), np.arange(100 * n, 100 * n + 100), 100 * n + 100)

    assert below.applied(BUCKET) == 0
    index.flush()

    assert below.applied(BUCKET) == 500
    assert below.get_many(BUCKET, numbers(0, 100)).tolist() == list(range(400, 500))


@pytest.mark.parametrize("writes_left", range(5))
def test_a_flush_that_fails_loses_nothing_and_can_be_tried_again(writes_left: int) -> None:
    below = WatchedIndex()
    index = FrontedKeyIndex(below, FrontSettings())
    apply_range(index, 0, 100)
    index.flush()
    index.apply(BUCKET, numbers(50, 170), np.arange(150, 270), 270)

    below.writes_left = writes_left
    if writes_left < 4:
        with pytest.raises(DiskFullError):
            index.flush()
        assert below.applied(BUCKET) == 100
    below.writes_left = None
    index.apply(BUCKET, numbers(60, 61), np.array([270]), 271)
    index.flush()

    expected = [*range(50), *range(150, 160), 270, *range(161, 270)]
    assert index.get_many(BUCKET, numbers(0, 170)).tolist() == expected
    assert below.get_many(BUCKET, numbers(0, 170)).tolist() == expected
    assert below.applied(BUCKET) == 271


def test_tables_and_dirty_keys_stay_within_their_limits() -> None:
    settings = FrontSettings(table_bytes_max=1 << 17, dirty_bytes_max=1 << 16)
    index = FrontedKeyIndex(MemoryKeyIndex(), settings)

    for start in range(0, 40_000, 500):
        apply_range(index, start, start + 500, BucketId(1, 0, start % 3))
        # One call may find the table full of dirty keys, or be the one that goes over.
        assert index._memory.table_bytes <= 2 * settings.table_bytes_max
        assert index._memory.dirty_bytes <= settings.dirty_bytes_max + 500 * 160
    for start in range(0, 40_000, 500):
        found = index.get_many(BucketId(1, 0, start % 3), numbers(start, start + 500))
        assert found.tolist() == list(range(start, start + 500))


def test_an_idle_bucket_gives_its_table_up_to_a_busy_one() -> None:
    below = WatchedIndex()
    index = FrontedKeyIndex(below, FrontSettings(table_bytes_max=1 << 17))
    apply_range(index, 0, 4_000, OTHER)
    index.flush()

    apply_range(index, 0, 4_000)

    assert index.get_many(BUCKET, numbers(0, 4_000)).tolist() == list(range(4_000))
    assert below.reads == 0
    assert index.get_many(OTHER, numbers(0, 4_000)).tolist() == list(range(4_000))
    assert below.reads == 1


def test_buckets_that_are_only_asked_how_far_they_are_cost_nothing() -> None:
    index = FrontedKeyIndex(MemoryKeyIndex())

    for n in range(1_000):
        index.applied(BucketId(1, 0, n))

    assert index._memory.table_bytes == 0


def test_scans_again_and_again_write_the_dirty_keys_below() -> None:
    below = MemoryKeyIndex()
    index = FrontedKeyIndex(below)
    apply_range(index, 0, 100)

    for _ in range(40):
        assert index.prefix(BUCKET, b"0000001")[1].tolist() == list(range(10, 20))

    assert below.applied(BUCKET) == 100


def test_a_dropped_bucket_counts_for_nothing() -> None:
    index = FrontedKeyIndex(MemoryKeyIndex())
    apply_range(index, 0, 5_000)

    index.drop(BUCKET)

    assert index._memory.table_bytes == index._memory.dirty_bytes == 0


@pytest.mark.parametrize(("name", "value"), [("table_bytes_max", -1), ("drain_rows_max", 0)])
def test_front_settings_out_of_range_are_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(InvalidError, match=f"setting={name} value={value}"):
        FrontSettings(**{name: value})


@SETTINGS
@pytest.mark.parametrize("seed", range(20))
def test_keys_that_were_looked_up_are_written_right_whatever_happened_since(settings: FrontSettings, seed: int) -> None:
    print(f"seed={seed}")
    random = Random(seed)
    below, oracle = MemoryKeyIndex(), MemoryKeyIndex()
    index = FrontedKeyIndex(below, settings)
    between: list[Callable[[], None]] = [
        lambda: None,
        index.flush,
        lambda: write(random_range(), at),
        lambda: write(pa.array([b"%03d" % n for n in range(30)], pa.binary()), at),
        lambda: assert_same(random_range()),
    ]

    def drop() -> None:
        index.drop(BUCKET)
        oracle.drop(BUCKET)

    between.append(drop)

    def random_range() -> pa.BinaryArray:
        start = random.randrange(3_000)
        return numbers(start, start + random.choice((10, 600, 900)))

    def write(keys: pa.BinaryArray, offset: int) -> None:
        for each in (index, oracle):
            each.apply(BUCKET, keys, np.arange(offset, offset + len(keys)), offset + len(keys))

    def assert_same(keys: pa.BinaryArray) -> None:
        assert index.get_many(BUCKET, keys).tolist() == oracle.get_many(BUCKET, keys).tolist()

    at = 0
    for _ in range(30):
        keys = random_range()
        assert_same(keys)
        random.choice(between)()
        write(keys, at)
        at += 1_000
    assert_same(numbers(0, 4_000))
    assert_same(pa.array([b"%03d" % n for n in range(30)], pa.binary()))
