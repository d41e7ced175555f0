"""Keys sort by memcmp and stay in arrival order where they are equal."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from penstock.codec.keys.keys import KeyCodec, sort_keys


def assert_sorted_like_python(values: list[bytes], keys: pa.BinaryArray | None = None) -> None:
    expected = sorted(range(len(values)), key=lambda row: values[row])
    result = sort_keys(pa.array(values, pa.binary()) if keys is None else keys)
    assert result.order.tolist() == expected
    assert result.keys.to_pylist() == [values[row] for row in expected]
    firsts = [i == 0 or values[expected[i]] != values[expected[i - 1]] for i in range(len(values))]
    assert result.starts.tolist() == firsts


@pytest.mark.parametrize(
    "values",
    [
        [],
        [b""],
        [b"b", b"a"],
        [b"a", b"a", b"b", b"b"],
        [b"b", b"a", b"b", b"a"],
        [b"", b"\x00", b"", b"\x00\x00", b"\x00"],
        [b"12345678\x00", b"12345678", b"12345678\x00\x00", b"12345678"],
        [b"p" * 40 + b"2", b"p" * 40 + b"1", b"q", b"p" * 40 + b"2"],
    ],
)
@pytest.mark.parametrize("times", [1, 40])
def test_small_cases_and_many_of_each(values: list[bytes], times: int) -> None:
    assert_sorted_like_python(values * times)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8, 9, 16, 17, 40])
def test_keys_of_one_width_with_duplicates(width: int) -> None:
    seed = width
    print(f"seed={seed}")
    rng = random.Random(seed)
    pool = [rng.randbytes(width) for _ in range(400)]
    assert_sorted_like_python([rng.choice(pool) for _ in range(1500)])


@pytest.mark.parametrize("alphabet", [b"\x00\x01", b"\x00\xff", b"abcdefgh"])
@pytest.mark.parametrize("shared", [0, 5, 12])
@pytest.mark.parametrize("longest", [3, 12, 40])
def test_keys_of_many_widths_with_shared_beginnings(alphabet: bytes, shared: int, longest: int) -> None:
    seed = 1000 * shared + longest
    print(f"seed={seed}")
    rng = random.Random(seed)
    for rows in (2, 9, 40, 400):
        stems = [bytes(rng.choices(alphabet, k=rng.randrange(20))) for _ in range(3)]
        values = [
            bytes(shared) + rng.choice(stems) + bytes(rng.choices(alphabet, k=rng.randrange(longest)))
            for _ in range(rows)
        ]
        assert_sorted_like_python(values)


def test_a_slice_of_keys_is_sorted_by_itself() -> None:
    values = [b"%d" % (i * 7919 % 100) for i in range(600)]
    for slice_of in (slice(11, 47), slice(11, 470)):
        assert_sorted_like_python(values[slice_of], pa.array(values)[slice_of])


def test_sorted_keys_keep_their_order() -> None:
    keys = KeyCodec([pa.int64()]).encode([pa.array(range(-500, 500))])
    result = sort_keys(keys)
    assert result.order.tolist() == list(range(1000))
    assert result.starts.all()
