"""Pauses in long work that holds the GIL, so that other threads can run.

A thread that asks for the GIL is given it after five milliseconds, one that finds it free at once. On a busy
machine a pause may last far longer than it was meant to; so there are no more of them than make up half of the time.
"""

from __future__ import annotations

import time


class GilPauses:
    """Pauses of one piece of work, from now on. One thread at a time."""

    def __init__(self, pause_us: int) -> None:
        self._pause = pause_us / 1e6
        self._started = time.perf_counter()
        self._paused = 0.0

    def pause_if_due(self) -> None:
        """Pause, if it is time to."""
        now = time.perf_counter()
        if 2 * self._paused <= now - self._started:
            time.sleep(self._pause)
            self._paused += time.perf_counter() - now
