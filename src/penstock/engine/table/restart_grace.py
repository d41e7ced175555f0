"""Grace after an open: what a scan of before may resume to stays readable for one scanner TTL.

Sessions die with the process, their tokens do not. A bucket that was just opened therefore keeps
its base for as long as a session may have been silent.
"""

from __future__ import annotations

import threading
from typing import Final

from penstock.runtime.clock import Clock
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.pins import PinHolder, PinKind

HOLDER: Final = PinHolder(PinKind.GRACE)


class RestartGrace:
    """Buckets whose base waits for readers from before. Thread-safe by one lock."""

    def __init__(self, ttl_ms: int, clock: Clock) -> None:
        self.ttl_ms = ttl_ms
        self._clock = clock
        self._lock = threading.Lock()
        self._held: list[tuple[int, Tablet]] = []

    def hold(self, tablet: Tablet) -> None:
        """Keep the base of a bucket that was just opened; one without rows has nothing to keep."""
        if tablet.view.visible == tablet.bucket.first_offset(tablet.view.base):
            return
        tablet.pins.pin(HOLDER, tablet.pins.base)
        with self._lock:
            self._held.append((self._clock.monotonic_ms() + self.ttl_ms, tablet))

    def reap(self) -> int:
        """Let go of buckets whose time has passed; return how many."""
        now = self._clock.monotonic_ms()
        with self._lock:
            over = [tablet for until, tablet in self._held if until <= now]
            self._held = [(until, tablet) for until, tablet in self._held if until > now]
        for tablet in over:
            tablet.pins.unpin(HOLDER)
        return len(over)
