"""Ends: stored once, replayed as often as one likes, seen as of any offset."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import CorruptionError
from penstock.model.place.change import OFFSET_MAX
from penstock.tablet.view.ends import Ends


def rows(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def test_no_array_is_made_before_a_row_ends() -> None:
    ends = Ends()
    ends.cover(10)

    assert ends.array is None
    assert ends.are_live(rows(0, 9))
    assert ends.before(100, 10) is None


def test_stored_end_counts_and_the_others_stay_live() -> None:
    ends = Ends()
    ends.store(rows(2, 0), rows(7, 8), 4)

    assert ends.array is not None
    assert ends.array.tolist() == [8, OFFSET_MAX, 7, OFFSET_MAX]
    assert ends.ended == 2
    assert ends.are_live(rows(1, 3))
    assert not ends.are_live(rows(1, 2))


def test_row_that_is_not_live_cannot_end() -> None:
    ends = Ends()
    ends.store(rows(1), rows(7), 2)

    with pytest.raises(CorruptionError, match="not live"):
        ends.store(rows(1), rows(8), 2)


def test_replay_of_the_same_end_changes_nothing_and_of_another_is_told() -> None:
    ends = Ends()
    ends.store(rows(1), rows(7), 3)

    assert ends.restore(rows(1, 2), rows(7, 8), 3)
    assert ends.ended == 2
    assert not ends.restore(rows(1), rows(9), 3)


def test_growing_leaves_the_array_of_readers_as_it_was() -> None:
    ends = Ends()
    ends.store(rows(0), rows(5), 2)
    seen = ends.array
    ends.store(rows(7), rows(9), 8)

    assert seen is not None
    assert seen.tolist() == [5, OFFSET_MAX]
    assert ends.array is not None
    assert ends.array[:8].tolist() == [5, *[OFFSET_MAX] * 6, 9]


def test_ends_as_of_an_offset_leave_out_later_ones() -> None:
    ends = Ends()
    ends.store(rows(0, 1), rows(5, 9), 3)

    before = ends.before(9, 3)
    assert before is not None
    assert before.tolist() == [5, OFFSET_MAX, OFFSET_MAX]
    assert ends.before(5, 3) is None
    assert ends.unchanged_since(10)
    assert not ends.unchanged_since(9)
