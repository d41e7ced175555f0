"""Pages read before they are asked for: the next one while the latest travels to its reader.

Each holds its rows in memory for a reader who may never come back, so there are only so many places
for them. A session that finds none free reads its page when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, NamedTuple

from penstock.engine.scan.page_reader import PageRows, PageSpan
from penstock.errors import PenstockError

PLACES: Final = 16
"""How many there are on a machine with memory enough."""

THREADS: Final = 2


class Place:
    """Room for one page. Free again when it is held no more: the page was taken, or its session is gone."""

    __slots__ = ("_free",)

    def __init__(self, free: list[None]) -> None:
        self._free = free

    def __del__(self) -> None:
        """Free the place."""
        # A list's own append: this may run in the middle of anything, so it must take no lock.
        self._free.append(None)


class WaitingPage(NamedTuple):
    """A page that was read ahead, and the place that it takes."""

    span: PageSpan
    rows: PageRows
    place: Place


class ReadAhead:
    """Reads pages in threads of its own. Thread-safe: places and pages move by single calls of lists."""

    def __init__(self, places: int = PLACES) -> None:
        self._free: list[None] = [None] * places
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="penstock-read-ahead")

    @property
    def free(self) -> int:
        """Return how many more pages there is room for."""
        return len(self._free)

    def start(self, read: Callable[[Place], None]) -> None:
        """Call `read` with a place in a while, if there is one."""
        try:
            self._free.pop()
        except IndexError:
            return
        place = Place(self._free)
        with suppress(RuntimeError):  # closed meanwhile
            self._threads.submit(_read, read, place)

    def close(self) -> None:
        """Read no more; return when no page is being read."""
        self._threads.shutdown(cancel_futures=True)


def _read(read: Callable[[Place], None], place: Place) -> None:
    # The reader that asks for the page will meet the same error, and is the one to be told.
    with suppress(PenstockError):
        read(place)
