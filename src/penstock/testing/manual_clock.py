"""A clock that moves only when told to."""

from __future__ import annotations

import threading


class ManualClock:
    """A `Clock` under the test's hand. Thread-safe."""

    def __init__(self, *, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 1_000_000) -> None:
        self._lock = threading.Lock()
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def wall_ms(self) -> int:
        """Return the wall time."""
        return self._wall_ms

    def monotonic_ms(self) -> int:
        """Return the monotonic time."""
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass on both clocks."""
        assert ms >= 0, "monotonic time only grows; use jump_wall"
        with self._lock:
            self._wall_ms += ms
            self._monotonic_ms += ms

    def jump_wall(self, ms: int) -> None:
        """Set the wall clock forward or (negative) back, as an operator or NTP would."""
        with self._lock:
            self._wall_ms += ms

    def __repr__(self) -> str:
        return f"ManualClock(wall_ms={self._wall_ms}, monotonic_ms={self._monotonic_ms})"
