"""Wall time that does not follow a clock which jumps.

The wall clock and the monotonic one go at the same pace. Where they part by more than a few minutes between two looks,
the wall clock was set, rightly or wrongly: time goes on from where it was, at the pace of the monotonic clock,
until both agree again or the process is started anew.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from penstock.runtime.clock import Clock

JUMP_MS: Final = 5 * 60_000
"""By how much the two clocks may part between two looks."""

_log = logging.getLogger("penstock")


class SteadyClock:
    """A `Clock` without jumps. Thread-safe by one lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._wall_ms = clock.wall_ms()
        self._at_ms = clock.monotonic_ms()
        self._jumped = False

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 in UTC, as if the clock had not been set."""
        with self._lock:
            wall_ms, at_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
            steady_ms = self._wall_ms + at_ms - self._at_ms
            jumped = abs(wall_ms - steady_ms) > JUMP_MS
            if jumped and not self._jumped:
                _log.warning(
                    "the clock jumped, and is not followed until it agrees again or the node restarts seconds=%d",
                    (wall_ms - steady_ms) // 1000,
                )
            self._jumped = jumped
            if jumped:
                return steady_ms
            self._wall_ms, self._at_ms = wall_ms, at_ms
            return wall_ms

    def monotonic_ms(self) -> int:
        """Return milliseconds that only grow."""
        return self._clock.monotonic_ms()

    def earliest_ms(self) -> int:
        """Return the earlier of what the wall clock says and what it would say without jumps: by it things expire."""
        return min(self.wall_ms(), self._clock.wall_ms())

    def go_on_from(self, wall_ms: int) -> None:
        """Let time go on from a moment that was reached before, if the clock says that it is far ahead."""
        if wall_ms - self.wall_ms() > JUMP_MS:
            with self._lock:
                self._wall_ms, self._at_ms = wall_ms, self._clock.monotonic_ms()


class LatestClock:
    """A `Clock` that says the later of what the wall clock says and what it would say without jumps.

    What is born by it does not expire too early, whichever of the two is right.
    """

    def __init__(self, steady: SteadyClock, clock: Clock) -> None:
        self._steady = steady
        self._clock = clock

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 in UTC."""
        return max(self._steady.wall_ms(), self._clock.wall_ms())

    def monotonic_ms(self) -> int:
        """Return milliseconds that only grow."""
        return self._clock.monotonic_ms()
