"""Pauses in long work."""

from __future__ import annotations

import time

from penstock.index.rocks.gil_pauses import GilPauses


def test_pauses_that_last_too_long_are_left_out_until_work_has_caught_up() -> None:
    pauses = GilPauses(pause_us=50_000)
    started = time.perf_counter()

    for _ in range(20):
        pauses.pause_if_due()

    # The first pause is twice as long as everything before it for a long time to come.
    assert 0.05 <= time.perf_counter() - started < 20 * 0.05
