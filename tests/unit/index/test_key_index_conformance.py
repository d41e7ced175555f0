"""What every key index promises, held against each implementation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from tests.kit.memory_key_index import MemoryKeyIndex

from penstock.errors import ClosedError
from penstock.index.front.front import FrontedKeyIndex
from penstock.index.front.front_settings import FrontSettings
from penstock.index.key_index import KeyIndex
from penstock.index.rocks.index import RocksKeyIndex
from penstock.index.rocks.settings import RocksIndexSettings
from penstock.model.place.bucket import BucketId

BUCKET = BucketId(7, 0, 3)
OTHER = BucketId(7, 0, 4)
Reopen = Callable[[KeyIndex], KeyIndex]


class Case:
    """An index to begin with, and how to have it again after it was closed."""

    def __init__(self, index: KeyIndex, reopen: Reopen) -> None:
        self.index = index
        self._reopen = reopen

    def reopen(self) -> KeyIndex:
        self.index.close()
        self.index = self._reopen(self.index)
        return self.index


def reopen_memory(index: KeyIndex) -> KeyIndex:
    assert isinstance(index, MemoryKeyIndex)
    return index.after_crash(seed=0)


TINY = FrontSettings(table_bytes_max=4_096, dirty_bytes_max=4_096, drain_rows_max=50)
"""So small that tables are begun anew and dirty keys are written by writers all the time."""


RUNS = RocksIndexSettings(run_keys_min=1, run_file_keys=7_000, run_chunk_keys=999, run_pause_us=0)


def fronted_memory(settings: FrontSettings) -> Case:
    below = MemoryKeyIndex()
    return Case(FrontedKeyIndex(below, settings), lambda _: FrontedKeyIndex(below.after_crash(seed=0), settings))


@pytest.fixture(params=["rocks", "rocks in runs", "memory", "front", "tiny front", "front over rocks"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    path = tmp_path / "index"
    match request.param:
        case "rocks":
            made = Case(RocksKeyIndex(path), lambda _: RocksKeyIndex(path))
        case "rocks in runs":
            made = Case(RocksKeyIndex(path, RUNS), lambda _: RocksKeyIndex(path, RUNS))
        case "memory":
            made = Case(MemoryKeyIndex(), reopen_memory)
        case "front":
            made = fronted_memory(FrontSettings())
        case "tiny front":
            made = fronted_memory(TINY)
        case _:
            made = Case(FrontedKeyIndex(RocksKeyIndex(path)), lambda _: FrontedKeyIndex(RocksKeyIndex(path)))
    yield made
    made.index.close()


@pytest.fixture
def index(case: Case) -> KeyIndex:
    return case.index


def keys_of(*keys: bytes) -> pa.BinaryArray:
    return pa.array(keys, pa.binary())


def numbered(numbers: npt.NDArray[np.int64]) -> pa.BinaryArray:
    return pa.array(numbers.astype(">i8").view("V8").tolist(), pa.binary())


def put(index: KeyIndex, bucket: BucketId, rows: dict[bytes, int], applied: int = 1) -> None:
    index.apply(bucket, keys_of(*rows), np.array(list(rows.values()), np.int64), applied)


def rows_of(index: KeyIndex, bucket: BucketId, prefix: bytes = b"") -> dict[bytes, int]:
    keys, offsets = index.prefix(bucket, prefix)
    return dict(zip(keys.to_pylist(), offsets.tolist(), strict=True))


def test_absent_keys_are_minus_one(index: KeyIndex) -> None:
    put(index, BUCKET, {b"b": 5})

    assert index.get_many(BUCKET, keys_of(b"a", b"b", b"c", b"")).tolist() == [-1, 5, -1, -1]
    assert index.get_many(BucketId(8, 0, 0), keys_of(b"a", b"b")).tolist() == [-1, -1]


def test_answers_come_in_the_order_of_the_keys_asked_for(index: KeyIndex) -> None:
    put(index, BUCKET, {b"a": 1, b"b": 2, b"c": 3})

    assert index.get_many(BUCKET, keys_of(b"c", b"a", b"b")).tolist() == [3, 1, 2]


def test_a_key_asked_for_twice_is_answered_twice(index: KeyIndex) -> None:
    put(index, BUCKET, {b"a": 1, b"b": 2})

    assert index.get_many(BUCKET, keys_of(b"b", b"a", b"b", b"x", b"x")).tolist() == [2, 1, 2, -1, -1]


def test_answers_are_int64_and_belong_to_the_caller(index: KeyIndex) -> None:
    put(index, BUCKET, {b"a": 1})

    for keys in (keys_of(b"a"), keys_of(b"x"), keys_of(b"a", b"x"), keys_of()):
        answer = index.get_many(BUCKET, keys)
        assert answer.dtype == np.int64
        assert answer.flags.writeable


def test_apply_replaces_offsets_and_removes_where_minus_one(index: KeyIndex) -> None:
    put(index, BUCKET, {b"a": 1, b"b": 2, b"c": 3})

    put(index, BUCKET, {b"a": 10, b"b": -1, b"d": 11, b"never": -1})

    assert rows_of(index, BUCKET) == {b"a": 10, b"c": 3, b"d": 11}
    assert index.get_many(BUCKET, keys_of(b"b")).tolist() == [-1]


def test_offsets_of_every_size_come_back(index: KeyIndex) -> None:
    rows = {b"zero": 0, b"byte": 255, b"wide": 1 << 40, b"max": (1 << 63) - 1}

    put(index, BUCKET, rows)

    assert rows_of(index, BUCKET) == rows


def test_keys_may_hold_any_bytes(index: KeyIndex) -> None:
    rows = {b"": 1, b"\x00": 2, b"\x00\x00": 3, b"\xff": 4, b"\xff\xff": 5, "ключ".encode(): 6, bytes(3000): 7}

    put(index, BUCKET, rows)

    assert rows_of(index, BUCKET) == rows
    assert index.get_many(BUCKET, keys_of(*rows)).tolist() == list(rows.values())


def test_applied_is_zero_until_set_and_then_the_last_one(index: KeyIndex) -> None:
    assert index.applied(BUCKET) == 0

    put(index, BUCKET, {b"a": 1}, applied=2)
    put(index, BUCKET, {b"b": 2}, applied=1 << 50)

    assert index.applied(BUCKET) == 1 << 50
    assert index.applied(BucketId(7, 0, 4)) == 0


def test_an_apply_without_keys_moves_the_applied_offset(index: KeyIndex) -> None:
    put(index, BUCKET, {}, applied=9)

    assert index.applied(BUCKET) == 9
    assert rows_of(index, BUCKET) == {}
    assert index.get_many(BUCKET, keys_of()).tolist() == []


def test_prefix_finds_keys_in_order_up_to_the_limit(index: KeyIndex) -> None:
    put(index, BUCKET, {b"b\xff": 4, b"a": 1, b"b": 2, b"b\x00": 3, b"c": 5, b"b\xff\xff": 6})

    keys, offsets = index.prefix(BUCKET, b"b")
    assert keys.to_pylist() == [b"b", b"b\x00", b"b\xff", b"b\xff\xff"]
    assert offsets.tolist() == [2, 3, 4, 6]
    assert keys.type == pa.binary()
    assert index.prefix(BUCKET, b"b", limit=2)[0].to_pylist() == [b"b", b"b\x00"]
    assert index.prefix(BUCKET, b"b", limit=0)[0].to_pylist() == []
    assert index.prefix(BUCKET, b"b", limit=99)[1].tolist() == [2, 3, 4, 6]
    assert index.prefix(BUCKET, b"b\xff")[1].tolist() == [4, 6]
    assert index.prefix(BUCKET, b"nothing")[1].tolist() == []


NEIGHBOURS = [
    BucketId(0, 0, 0),
    BucketId(0, 0, 1),
    BucketId(0, 1, 0),
    BucketId(1, 0, 0),
    BucketId(255, 0, 0),
    BucketId(256, 0, 0),
    BucketId(7, (1 << 32) - 1, (1 << 16) - 1),
    BucketId(8, 0, 0),
    BucketId((1 << 32) - 1, (1 << 32) - 1, (1 << 16) - 2),
    BucketId((1 << 32) - 1, (1 << 32) - 1, (1 << 16) - 1),
]


def test_buckets_do_not_see_each_other(index: KeyIndex) -> None:
    # The second key of a bucket looks like the next bucket's prefix, the third like everything after it.
    rows = {
        bucket: {b"same": n, NEIGHBOURS[(n + 1) % len(NEIGHBOURS)].prefix(): 100 + n, b"\xff" * 12: 200 + n}
        for n, bucket in enumerate(NEIGHBOURS)
    }
    for n, bucket in enumerate(NEIGHBOURS):
        put(index, bucket, rows[bucket], applied=n + 1)

    for n, bucket in enumerate(NEIGHBOURS):
        assert rows_of(index, bucket) == rows[bucket]
        assert index.get_many(bucket, keys_of(b"same")).tolist() == [n]
        assert index.applied(bucket) == n + 1


@pytest.mark.parametrize("dropped", range(len(NEIGHBOURS)))
def test_drop_forgets_one_bucket_and_no_other(index: KeyIndex, dropped: int) -> None:
    for n, bucket in enumerate(NEIGHBOURS):
        put(index, bucket, {b"": n, b"a": n, b"\xff" * 12: n}, applied=n + 1)

    index.drop(NEIGHBOURS[dropped])
    index.drop(BucketId(3, 3, 3))

    for n, bucket in enumerate(NEIGHBOURS):
        gone = n == dropped
        assert rows_of(index, bucket) == ({} if gone else {b"": n, b"a": n, b"\xff" * 12: n})
        assert index.applied(bucket) == (0 if gone else n + 1)


def test_a_dropped_bucket_can_be_filled_again(index: KeyIndex) -> None:
    put(index, BUCKET, {b"a": 1, b"b": 2}, applied=3)
    index.drop(BUCKET)

    put(index, BUCKET, {b"b": 20}, applied=30)

    assert rows_of(index, BUCKET) == {b"b": 20}
    assert index.applied(BUCKET) == 30


def test_what_was_flushed_is_there_after_reopening(case: Case) -> None:
    put(case.index, BUCKET, {b"a": 1, b"b": 2}, applied=3)
    put(case.index, BucketId(9, 9, 9), {b"a": 5}, applied=6)
    case.index.drop(BucketId(9, 9, 9))
    put(case.index, BUCKET, {b"a": -1, b"c": 4}, applied=5)
    case.index.flush()

    index = case.reopen()

    assert rows_of(index, BUCKET) == {b"b": 2, b"c": 4}
    assert index.applied(BUCKET) == 5
    assert rows_of(index, BucketId(9, 9, 9)) == {}
    assert index.applied(BucketId(9, 9, 9)) == 0


def test_sliced_arrays_mean_their_slice(index: KeyIndex) -> None:
    keys = keys_of(b"before", b"a", b"bb", b"ccc", b"after")
    offsets = np.arange(10, dtype=np.int64)

    index.apply(BUCKET, keys.slice(1, 3), offsets[2:8:2], 8)

    assert rows_of(index, BUCKET) == {b"a": 2, b"bb": 4, b"ccc": 6}
    assert index.get_many(BUCKET, keys.slice(2)).tolist() == [4, 6, -1]
    assert index.get_many(BUCKET, keys.slice(5)).tolist() == []


def test_a_batch_of_a_hundred_thousand_keys(case: Case) -> None:
    seed = 20
    print(f"seed={seed}")
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(100_000)
    keys = pa.array(numbers.astype(">i8").view("V8").tolist(), pa.binary())
    offsets = rng.integers(0, 1 << 62, len(numbers))
    offsets[::7] = -1

    case.index.apply(BUCKET, keys, np.abs(offsets), 1)
    case.index.apply(BUCKET, keys, offsets, 100_000)
    case.index.flush()
    index = case.reopen()

    assert np.array_equal(index.get_many(BUCKET, keys), offsets)
    live = offsets != -1
    order = np.argsort(numbers[live])
    found_keys, found_offsets = index.prefix(BUCKET, b"")
    assert found_keys.equals(keys.filter(pa.array(live)).take(pa.array(order)))
    assert np.array_equal(found_offsets, offsets[live][order])
    assert index.applied(BUCKET) == 100_000


@pytest.mark.parametrize("count", [0, 1, 3_000, 45_000])
def test_a_run_of_sorted_keys_is_applied_as_a_call_is(case: Case, count: int) -> None:
    before = np.arange(0, count, 2)
    case.index.apply(BUCKET, numbered(before), before, 7)
    case.index.drop(OTHER)
    offsets = np.arange(count) + 1_000
    offsets[::5] = -1

    case.index.apply_run(BUCKET, numbered(np.arange(count)), offsets, 100)
    case.index.apply_run(OTHER, numbered(np.arange(count)), offsets + 1, 101)
    seen = case.index.get_many(BUCKET, numbered(np.arange(count)))
    case.index.flush()
    index = case.reopen()

    assert np.array_equal(seen, offsets)
    assert np.array_equal(index.get_many(BUCKET, numbered(np.arange(count))), offsets)
    assert np.array_equal(index.prefix(BUCKET, b"")[1], offsets[offsets != -1])
    assert (index.applied(BUCKET), index.applied(OTHER)) == (100, 101)


def test_calls_after_a_run_count_more_than_the_run(case: Case) -> None:
    keys = numbered(np.arange(30_000))
    case.index.apply_run(BUCKET, keys, np.arange(30_000), 30_000)

    put(case.index, BUCKET, {keys[3].as_py(): -1, keys[4].as_py(): 30_000}, applied=30_002)
    case.index.apply_run(BUCKET, keys[4:25_000], np.arange(40_000, 64_996), 65_000)
    case.index.drop(OTHER)
    case.index.flush()
    index = case.reopen()

    assert index.get_many(BUCKET, keys[2:6]).tolist() == [2, -1, 40_000, 40_001]
    assert index.get_many(BUCKET, keys[24_999:25_001]).tolist() == [64_995, 25_000]


def test_a_dropped_bucket_takes_runs_again(case: Case) -> None:
    keys = numbered(np.arange(25_000))
    case.index.apply_run(BUCKET, keys, np.arange(25_000), 25_000)
    case.index.drop(BUCKET)
    case.index.apply_run(BUCKET, keys[:22_000], np.arange(22_000), 22_000)
    case.index.flush()
    index = case.reopen()

    assert len(index.prefix(BUCKET, b"")[0]) == 22_000
    assert index.applied(BUCKET) == 22_000


def test_threads_read_while_one_writes(index: KeyIndex) -> None:
    keys = pa.array(np.arange(3_000).astype(">i8").view("V8").tolist(), pa.binary())
    rounds = 30
    index.apply(BUCKET, keys, np.zeros(len(keys), np.int64), 0)
    wrong: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            low = index.applied(BUCKET)
            offsets = index.get_many(BUCKET, keys)
            high = index.applied(BUCKET)
            # A call is applied chunk by chunk: keys may be one call ahead of the applied offset, never behind it.
            if offsets.min() < low or offsets.max() > high + 1:
                wrong.append(f"{offsets.min()} {offsets.max()} outside {low}..{high}")
            if len(index.prefix(BUCKET, b"")[0]) != len(keys):
                wrong.append("a scan missed keys")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for n in range(1, rounds + 1):
        index.apply(BUCKET, keys, np.full(len(keys), n, np.int64), n)
    done.set()
    for reader in readers:
        reader.join()

    assert wrong == []
    assert index.applied(BUCKET) == rounds


def test_a_closed_index_refuses_every_call_but_close(index: KeyIndex) -> None:
    index.close()

    calls: list[Callable[[], object]] = [
        lambda: index.get_many(BUCKET, keys_of(b"a")),
        lambda: put(index, BUCKET, {b"a": 1}),
        lambda: index.applied(BUCKET),
        lambda: index.prefix(BUCKET, b""),
        index.flush,
        lambda: index.drop(BUCKET),
    ]
    for call in calls:
        with pytest.raises(ClosedError, match="open it again"):
            call()
    index.close()


def test_closing_under_readers_ends_each_with_an_answer_or_a_refusal(index: KeyIndex) -> None:
    keys = pa.array(np.arange(2_000).astype(">i8").view("V8").tolist(), pa.binary())
    index.apply(BUCKET, keys, np.arange(2_000), 2_000)
    started, refused = threading.Barrier(4), []

    def read() -> None:
        started.wait()
        try:
            while True:
                assert index.get_many(BUCKET, keys)[-1] == 1_999
        except ClosedError as error:
            refused.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    started.wait()
    index.close()
    for reader in readers:
        reader.join()

    assert len(refused) == 3
