from __future__ import annotations

import pytest

from penstock.runtime.clock import Clock
from penstock.testing.manual_clock import ManualClock


def test_time_moves_only_when_told_to() -> None:
    clock = ManualClock(wall_ms=1000, monotonic_ms=5)
    seam: Clock = clock

    clock.advance(7)

    assert (seam.wall_ms(), seam.monotonic_ms()) == (1007, 12)


def test_wall_jumps_leave_monotonic_time_alone() -> None:
    clock = ManualClock(wall_ms=1000, monotonic_ms=5)

    clock.jump_wall(-900)

    assert (clock.wall_ms(), clock.monotonic_ms()) == (100, 5)


def test_monotonic_time_does_not_go_back() -> None:
    with pytest.raises(AssertionError):
        ManualClock().advance(-1)
