"""What a running query stands at stays readable while its planner lives, also if its partition is dropped."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Final

from penstock.client.link.link import Link
from penstock.client.pages.change_pull import ChangePull
from penstock.errors import ClosedError, PenstockError
from penstock.model.table.table import TableInfo
from penstock.spark.streaming.stream_offset import Positions

_log = logging.getLogger("penstock.spark")
HOLD_SECONDS: Final = 10.0


class StreamHold:
    """Pins the place of one query, again and again, until released. Thread-safe."""

    def __init__(self, link: Link, info: TableInfo) -> None:
        self._pull = ChangePull(link, info, {})
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def births(self) -> int | None:
        """Return the id from which on partitions are held; None: none are so far."""
        return self._pull.births

    def stand(self, positions: Positions, births: int | None) -> None:
        """Hold these positions, and what partitions from an id on have.

        Raises:
            PartitionNotFoundError: a partition went with what the query has not read.
            OffsetOutOfRangeError: changes from a position on are no longer kept.
        """
        with self._lock:
            self._pull.stand(positions, births)
            if self._thread is None:
                # The thread must not hold this, or a reader that was forgotten would be held for ever.
                watch = (weakref.ref(self), self._released)
                self._thread = threading.Thread(target=_renew, args=watch, name="penstock-hold", daemon=True)
                self._thread.start()
                weakref.finalize(self, self._released.set).atexit = False

    def release(self) -> None:
        """Hold nothing any more; idempotent."""
        self._released.set()
        with self._lock:
            self._pull.release()

    def renew(self) -> None:
        """Hold for another while what was not released."""
        with self._lock:
            if self._released.is_set():
                return
            try:
                self._pull.hold(patiently=False)
            except ClosedError:
                self._released.set()
            except PenstockError as error:
                # The next micro-batch finds out what that means, and says so.
                _log.warning("the place of the query cannot be held now: %s", error)


def _renew(reference: weakref.ref[StreamHold], released: threading.Event) -> None:
    while not released.wait(HOLD_SECONDS) and (hold := reference()) is not None:
        hold.renew()
        del hold
