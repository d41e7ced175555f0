"""The index for tests: crashes and damage that the real one may suffer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from tests.kit.memory_key_index import MemoryKeyIndex

from penstock.model.place.bucket import BucketId

BUCKET = BucketId(1, 0, 0)


def apply_range(index: MemoryKeyIndex, start: int, end: int) -> None:
    keys = pa.array([b"%04d" % n for n in range(start, end)], pa.binary())
    index.apply(BUCKET, keys, np.arange(start, end), end)


def held(index: MemoryKeyIndex) -> tuple[int, int]:
    keys, offsets = index.prefix(BUCKET, b"")
    assert keys.to_pylist() == [b"%04d" % n for n in range(len(keys))]
    assert offsets.tolist() == list(range(len(keys)))
    return len(keys), index.applied(BUCKET)


def test_a_crash_keeps_the_flush_and_some_prefix_of_later_chunks() -> None:
    index = MemoryKeyIndex(chunk_keys=10)
    apply_range(index, 0, 25)
    index.flush()
    apply_range(index, 25, 50)
    apply_range(index, 50, 65)

    survived = {held(index.after_crash(seed)) for seed in range(200)}

    assert survived == {(25, 25), (35, 25), (45, 25), (50, 50), (60, 50), (65, 65)}


def test_the_same_seed_survives_the_same_way() -> None:
    index = MemoryKeyIndex(chunk_keys=1)
    apply_range(index, 0, 40)

    for seed in range(20):
        assert held(index.after_crash(seed)) == held(index.after_crash(seed))


def test_a_survivor_is_durable_and_apart_from_the_one_that_crashed() -> None:
    index = MemoryKeyIndex()
    apply_range(index, 0, 5)
    index.flush()

    survivor = index.after_crash(1)
    apply_range(index, 5, 9)

    assert held(survivor) == (5, 5)
    assert held(survivor.after_crash(2)) == (5, 5)


def test_an_unflushed_drop_may_be_undone_by_a_crash() -> None:
    index = MemoryKeyIndex()
    apply_range(index, 0, 5)
    index.flush()
    index.drop(BUCKET)

    survived = {held(index.after_crash(seed)) for seed in range(20)}

    assert survived == {(5, 5), (0, 0)}


def test_a_lost_index_is_empty_for_good() -> None:
    index = MemoryKeyIndex()
    apply_range(index, 0, 5)
    index.flush()

    index.lose()

    assert held(index) == (0, 0)
    assert held(index.after_crash(1)) == (0, 0)


def test_rolling_back_returns_to_the_flush_before_the_last() -> None:
    index = MemoryKeyIndex()
    for start in (0, 5, 10):
        apply_range(index, start, start + 5)
        index.flush()
    apply_range(index, 15, 20)

    index.roll_back()

    assert held(index) == (10, 10)
    assert held(index.after_crash(1)) == (10, 10)
