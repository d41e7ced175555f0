"""Pauses in long work."""

from __future__ import annotations

import time

from penstock.index.rocks.turns import Turns


def test_pauses_that_last_too_long_are_left_out_until_work_has_caught_up() -> None:
    turns = Turns(pause_us=50_000)
    started = time.perf_counter()

    for _ in range(20):
        turns.give()

    # The first pause is twice as long as everything before it for a long time to come.
    assert 0.05 <= time.perf_counter() - started < 20 * 0.05
