"""How far long reads and writes are, told while they run: on stderr, or to a function of the caller's."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

from penstock.errors import InvalidError

QUIET_SECONDS: Final = 1.0
"""What ends within this time is not told of."""
LINE_SECONDS: Final = 0.2
"""How often a line on a terminal is written anew."""
PLAIN_SECONDS: Final = 5.0
"""How often a line is written where it cannot be written over."""
_BAR_CHARACTERS: Final = 24


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one reading or writing is. `fraction` is None where it is not known how much there will be."""

    what: str
    table: str
    rows: int
    fraction: float | None
    seconds: float
    ended: bool

    def __str__(self) -> str:
        rate = self.rows / self.seconds if self.seconds else 0
        done = f"{self.what} {self.table}: {self.rows:,} rows, {rate:,.0f} rows/s, {self.seconds:.0f} s"
        if self.fraction is None:
            return done
        filled = round(_BAR_CHARACTERS * self.fraction)
        return f"{done} [{'#' * filled}{'.' * (_BAR_CHARACTERS - filled)}] {self.fraction:.0%}"


OnProgress = Callable[[Progress], object]
ProgressLike = bool | OnProgress


class ProgressLine:
    """Shows progress on a stream: one line that is written over on a terminal, now and then a line elsewhere.

    Thread-safe: `_lock` keeps lines whole.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._lock = threading.Lock()
        self._last: float | None = None

    def __call__(self, progress: Progress) -> None:
        """Show how far it is."""
        now = time.monotonic()
        with self._lock:
            due = self._last is None or self._terminal or now - self._last >= PLAIN_SECONDS
            if not (due or progress.ended):
                return
            self._last = None if progress.ended else now
            if self._terminal:
                self._stream.write(f"\r\x1b[K{progress}" + ("\n" if progress.ended else ""))
            else:
                self._stream.write(f"{progress}\n")
            self._stream.flush()


def read_progress(progress: ProgressLike) -> OnProgress | None:
    """Return what is to be told of progress, None if no caller wants to know.

    Raises:
        InvalidError: it is neither a flag nor a function.
    """
    if callable(progress):
        return progress
    if not isinstance(progress, bool):
        raise InvalidError("progress is True, False, or a function that takes a Progress", progress=repr(progress))
    return ProgressLine() if progress else None


class Meter:
    """Measures one reading or writing, and tells of it once it lasts. For one thread at a time."""

    def __init__(
        self, tell: OnProgress, what: str, table: str, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._what = what
        self._table = table
        self._monotonic = monotonic
        self._began = monotonic()
        self._due = self._began + QUIET_SECONDS
        self._rows = 0
        self._told = False

    def add(self, rows: int, fraction: Callable[[], float | None] = lambda: None) -> None:
        """Count rows; `fraction` is asked only when it is time to tell."""
        self._rows += rows
        now = self._monotonic()
        if now >= self._due:
            self._due = now + LINE_SECONDS
            self._told = True
            self._tell(self._progress(now, fraction(), ended=False))

    def end(self, *, whole: bool) -> None:
        """Tell that it is over, if anything was told; `whole` says that nothing is missing. Idempotent."""
        if self._told:
            self._told = False
            self._tell(self._progress(self._monotonic(), 1.0 if whole else None, ended=True))

    def _progress(self, now: float, fraction: float | None, *, ended: bool) -> Progress:
        return Progress(self._what, self._table, self._rows, fraction, now - self._began, ended)
