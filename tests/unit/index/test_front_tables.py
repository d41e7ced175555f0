"""The parts of the front: fingerprints, the table they are held in, the log of dirty keys."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from penstock.codec.keys.byte_rows import ByteRows
from penstock.index.front.dirty_log import DirtyLog
from penstock.index.front.growing_table import GrowingTable
from penstock.index.front.hash_table import SLOTS_MIN, UNKNOWN, HashTable, slots_for
from penstock.index.front.key_hash import NarrowHash, WideHash, narrow_width, rows_of, whole_words


def keys_of(*keys: bytes) -> pa.BinaryArray:
    return pa.array(keys, pa.binary())


def seeded(seed: int) -> tuple[Random, WideHash]:
    print(f"seed={seed}")
    random = Random(seed)
    return random, WideHash(random.randbytes)


@pytest.mark.parametrize("width", range(9))
def test_narrow_fingerprints_give_the_keys_back(width: int) -> None:
    random = Random(width)
    keys = [random.randbytes(width) for _ in range(100)]
    narrow = NarrowHash(width, random.randbytes)

    prints = narrow.prints(rows_of(keys_of(*keys)))
    rows = narrow.keys(prints)

    assert [bytes(rows.data[start : start + width]) for start in rows.starts.tolist()] == keys
    assert rows.lengths.tolist() == [width] * len(keys)


def test_one_key_has_the_fingerprint_that_it_has_among_many() -> None:
    random, wide = seeded(1)
    keys = [random.randbytes(random.choice((0, 1, 3, 4, 7, 8, 9, 16, 31, 511, 512, 513, 3_000))) for _ in range(300)]

    found = wide.prints(rows_of(keys_of(*keys)))

    assert [wide.print_of(key) for key in keys] == list(zip(*(word.tolist() for word in found), strict=True))
    narrow = NarrowHash(5, random.randbytes)
    assert narrow.print_of(b"12345") == tuple(int(word[0]) for word in narrow.prints(rows_of(keys_of(b"12345"))))
    assert narrow.print_of(b"1234") is None


def test_keys_that_differ_only_in_trailing_zeros_or_one_bit_differ_in_both_words() -> None:
    _, wide = seeded(2)
    keys = [bytes(length) for length in range(40)] + [b"\0" * at + b"\1" + b"\0" * (20 - at) for at in range(21)]

    first, second = wide.prints(rows_of(keys_of(*keys)))

    assert len(set(first.tolist())) == len(set(second.tolist())) == len(keys)


def test_a_sliced_array_has_the_fingerprints_of_its_slice() -> None:
    _, wide = seeded(3)
    keys = keys_of(b"before", b"a", b"a key of more than a word", b"after")

    sliced = wide.prints(rows_of(keys.slice(1, 2)))

    assert sliced[0].tolist() == wide.prints(rows_of(keys))[0][1:3].tolist()


def test_keys_are_narrow_if_all_have_one_width_of_up_to_eight_bytes() -> None:
    assert narrow_width(rows_of(keys_of(b"12345678", b"abcdefgh"))) == 8
    assert narrow_width(rows_of(keys_of(b"1", b"12"))) is None
    assert narrow_width(ByteRows.of_binary(keys_of(b"123456789"))) is None


def test_keys_of_eight_bytes_each_are_words() -> None:
    keys = keys_of(b"before!!", b"\1\0\0\0\0\0\0\0", b"\0\1\0\0\0\0\0\0", b"more")

    words = whole_words(keys.slice(1, 2))

    assert words is not None
    assert words.tolist() == [1, 256]
    assert whole_words(keys) is None
    assert whole_words(keys_of(b"1234567", b"123456789")) is None
    assert whole_words(keys_of()) is None


def words_of(*values: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint64]]]:
    return (np.array(values, np.uint64),)


def test_fingerprints_with_one_path_are_all_found() -> None:
    table = HashTable(1)
    near = [n + 1 for n in range(30)]

    table.store(words_of(*near), np.arange(30))
    table.store(words_of(*near[:10]), np.arange(100, 110))

    assert table.find(words_of(*near)).tolist() == [*range(100, 110), *range(10, 30)]
    assert [table.find_one((word,)) for word in near] == [*range(100, 110), *range(10, 30)]
    assert table.find(words_of(31, 0)).tolist() == [UNKNOWN, UNKNOWN]
    assert table.find_one((31,)) == UNKNOWN
    assert table.used == 30


def test_store_without_replacing_leaves_what_is_held() -> None:
    table = HashTable(1)
    table.store(words_of(5), np.array([1]))

    table.store(words_of(5, 6), np.array([2, 3]), replace=False)

    assert table.find(words_of(5, 6)).tolist() == [1, 3]


def test_trace_is_void_once_anything_was_stored() -> None:
    table = GrowingTable(1)
    table.store(words_of(*range(1, 20)), np.arange(1, 20))
    sought = words_of(5, 30)
    offsets, trace = table.trace(sought)
    assert offsets.tolist() == [5, UNKNOWN]

    # Its path begins where that of 30 does: the slot that was empty is taken now.
    table.store(words_of(31), np.array([310]))
    table.store(sought, np.array([50, 300]), trace)

    assert table.find(words_of(5, 30, 31)).tolist() == [50, 300, 310]
    assert table.used == 21


def test_store_along_a_trace_is_a_store() -> None:
    table = GrowingTable(1)
    table.store(words_of(*range(1, 20)), np.arange(1, 20))
    sought = words_of(5, 30, 6, 31)

    table.store(sought, np.array([50, 300, 60, 310]), table.trace(sought)[1])

    assert table.find(words_of(4, 5, 6, 30, 31)).tolist() == [4, 50, 60, 300, 310]


def test_two_words_are_told_apart_by_either() -> None:
    table = HashTable(2)
    first, second = np.array([1, 1, 2], np.uint64), np.array([1, 2, 1], np.uint64)

    table.store((first, second), np.array([10, 20, 30]))

    assert table.find((first, second)).tolist() == [10, 20, 30]
    assert table.find_one((2, 2)) == UNKNOWN


@pytest.mark.parametrize("keep_absent", [True, False])
def test_a_table_holds_the_same_while_it_grows_and_when_it_has_grown(*, keep_absent: bool) -> None:
    seed = 4
    print(f"seed={seed}")
    rng = np.random.default_rng(seed)
    words, offsets = rng.integers(0, 1 << 64, 100_000, np.uint64), np.arange(100_000)
    offsets[::3] = -1
    table = GrowingTable(1, slots_for(60_000))
    table.store((words[:60_000],), offsets[:60_000])

    table.reserve(40_000, keep_absent=keep_absent)
    moving = [table.is_moving]
    for start in range(60_000, 100_000, 1_000):
        piece = slice(start, start + 1_000)
        table.store((words[piece],), offsets[piece])
        table.store((words[start - 60_000 : start - 59_990],), np.arange(start, start + 10))
        if keep_absent:
            table.remember((words[start - 50_000 : start - 49_990],), np.arange(10))
        offsets[start - 60_000 : start - 59_990] = np.arange(start, start + 10)
        found = table.find((words[: piece.stop],))
        known = (found != UNKNOWN) | (offsets[: piece.stop] != -1)
        assert np.array_equal(found[known], offsets[: piece.stop][known])
        assert keep_absent <= known.all()
        moving.append(table.is_moving)

    assert moving == sorted(moving, reverse=True)
    assert moving[:5] == [True] * 5
    assert not table.is_moving
    assert [table.find_one((int(word),)) for word in words[:100]] == table.find((words[:100],)).tolist()


def test_a_table_that_grows_again_before_it_has_moved_loses_nothing() -> None:
    rng = np.random.default_rng(5)
    words, offsets = rng.integers(0, 1 << 64, 400_000, np.uint64), np.arange(400_000)
    table = GrowingTable(1)

    for start, end in ((0, 40_000), (40_000, 40_010), (40_010, 100_000), (100_000, 400_000)):
        table.reserve(end - start, keep_absent=True)
        table.store((words[start:end],), offsets[start:end])

    assert np.array_equal(table.find((words,)), offsets)
    assert np.array_equal(np.sort(table.entries()[1]), offsets)
    assert table.used == 400_000


def test_slots_are_a_power_of_two_with_room_to_spare() -> None:
    assert slots_for(0) == SLOTS_MIN
    assert slots_for(45) == 128
    assert slots_for(10_000_000) == 1 << 24


def test_what_was_taken_and_not_written_is_taken_again_with_what_came_since() -> None:
    dirty = DirtyLog()
    dirty.append(keys_of(b"a", b"b"), np.array([1, 2]), 3)
    dirty.take(1_000)
    dirty.append(keys_of(b"a"), np.array([4]), 5)

    taken = dirty.take(1_000)

    assert taken is not None
    assert (taken.keys.to_pylist(), taken.offsets.tolist(), taken.applied) == ([b"a", b"b", b"a"], [1, 2, 4], 5)
    dirty.written()
    assert not dirty
    assert dirty.nbytes == 0
    assert dirty.take(1_000) is None


def test_small_calls_are_joined_in_order_and_the_oldest_are_taken_first() -> None:
    dirty = DirtyLog()
    for n in range(1_000):
        dirty.append(keys_of(b"%04d" % n), np.array([n]), n + 1)

    assert len(dirty.chunks()) < 100
    taken = dirty.take(100)
    assert taken is not None
    assert taken.offsets.tolist() == list(range(taken.applied))
    assert 100 <= taken.applied < 200
    assert sum(len(chunk.keys) for chunk in dirty.chunks()) == 1_000
