"""Time, as an argument. Integer milliseconds everywhere."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for stamps, monotonic time for everything that expires."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 in UTC; may jump."""

    def monotonic_ms(self) -> int:
        """Return milliseconds that only grow, from an arbitrary start."""


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 in UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds that only grow."""
        return time.monotonic_ns() // 1_000_000
