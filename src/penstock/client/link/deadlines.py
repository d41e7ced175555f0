"""Deadlines of calls under way."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

IDLE_SECONDS_MAX: Final = 60.0


class Cancellable(Protocol):
    """A stream that can be cancelled."""

    def cancel(self) -> None:
        """Cancel it, from any thread."""


class Deadlines:
    """Cancels streams whose call takes too long: Flight's own timeouts are for a stream's whole life.

    Those of one connection: `closed` tells that it was closed. Thread-safe by one lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._due: dict[Cancellable, float] = {}
        self._wake_at = float("inf")
        self._thread: threading.Thread | None = None
        self.closed = False

    def begin(self, stream: Cancellable, seconds: float) -> None:
        """Cancel the stream after so long, unless `end` comes first."""
        due = time.monotonic() + seconds
        with self._lock:
            self._due[stream] = due
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-deadlines", daemon=True)
                self._thread.start()
            elif due < self._wake_at:
                self._changed.notify()

    def end(self, stream: Cancellable) -> bool:
        """Watch the stream no more; tell whether it was in time."""
        with self._lock:
            return self._due.pop(stream, None) is not None

    def close(self) -> None:
        """Cancel every watched stream."""
        with self._lock:
            self.closed = True
            streams = list(self._due)
        for stream in streams:
            stream.cancel()

    def _run(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                late = [stream for stream, due in self._due.items() if due <= now]
                for stream in late:
                    del self._due[stream]
                if not late:
                    # Woken rarely: most calls end long before, and a later deadline needs no wake-up.
                    self._wake_at = min(self._due.values(), default=now + IDLE_SECONDS_MAX)
                    self._changed.wait(self._wake_at - now)
                    if not self._due and time.monotonic() >= self._wake_at:
                        self._thread = None
                        return
            for stream in late:
                stream.cancel()
