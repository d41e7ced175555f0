"""Saved ends come back as they were written, in the smaller of two forms."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.codec.stored.ends_file import MAGIC, VERSION, decode_ends, encode_ends
from penstock.codec.stored.framed import frame
from penstock.errors import CorruptionError, UnsupportedError
from penstock.model.place.change import OFFSET_MAX


def ends(rows: int, ended: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    array = np.full(rows, OFFSET_MAX, np.int64)
    array[np.array(Random(rows).sample(range(rows), ended), np.int64)] = 1_000 + np.arange(ended)
    return array


@pytest.mark.parametrize(("rows", "ended"), [(1, 0), (1, 1), (100, 3), (100, 66), (100, 67), (100, 100)])
def test_ends_survive_as_bytes(rows: int, ended: int) -> None:
    array = ends(rows, ended)

    assert decode_ends(encode_ends(array), rows=rows, name="e").tolist() == array.tolist()


def test_few_ends_take_little_room() -> None:
    assert len(encode_ends(ends(10_000, 5))) < 200
    assert len(encode_ends(ends(10_000, 9_000))) < 8 * 10_000 + 100


def test_ends_of_another_file_are_refused() -> None:
    with pytest.raises(CorruptionError, match="do not belong"):
        decode_ends(encode_ends(ends(100, 3)), rows=99, name="e")


def test_any_flipped_bit_or_cut_is_found() -> None:
    data = encode_ends(ends(100, 20))
    random = Random(1)
    for _ in range(100):
        damaged = bytearray(data)
        damaged[random.randrange(len(data))] ^= 1 << random.randrange(8)
        with pytest.raises(CorruptionError):
            decode_ends(bytes(damaged), rows=100, name="e")
        with pytest.raises(CorruptionError):
            decode_ends(data[: random.randrange(len(data))], rows=100, name="e")


def test_frame_around_something_else_is_damage() -> None:
    with pytest.raises(CorruptionError):
        decode_ends(frame(MAGIC, VERSION, b"short"), rows=1, name="e")


def test_newer_version_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="newer version"):
        decode_ends(frame(MAGIC, VERSION + 1, bytes(16)), rows=1, name="e")
