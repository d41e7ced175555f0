from random import Random

import numpy as np
import pytest

from penstock.tablet.merge.aggregates.segments import Segments

INT64_MAX = (1 << 63) - 1


def segments_of(lengths: list[int]) -> Segments:
    rows = sum(lengths)
    return Segments(rows, np.arange(rows), np.cumsum([0, *lengths[:-1]]))


@pytest.mark.parametrize("longest", [2, 5, 60])
@pytest.mark.parametrize("seed", range(5))
def test_sums_that_fit_are_exact_though_the_total_of_all_rows_does_not(longest: int, seed: int) -> None:
    print(f"seed={seed}")
    random = Random(seed)
    lengths = [random.randint(1, longest) for _ in range(40)] + [longest]
    most = INT64_MAX // longest
    rows = [[random.choice((-most, most, 0, random.randint(-9, 9))) for _ in range(length)] for length in lengths]

    found = segments_of(lengths).sum(np.array([value for row in rows for value in row], np.int64))

    assert found.tolist() == [sum(row) for row in rows]


def test_lengths_are_those_of_the_segments() -> None:
    segments = segments_of([3, 1, 7])

    assert segments.lengths.tolist() == [3, 1, 7]
    assert (segments.longest, segments.count) == (7, 3)
    assert Segments(4).lengths.tolist() == [1, 1, 1, 1]
