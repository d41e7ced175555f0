"""Renewal in the background, of what ends when nobody renews it: a lease, an owner."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import Final

from penstock.errors import ClosedError, PenstockError

_log = logging.getLogger("penstock")
RENEWALS_PER_LIFE: Final = 3


class Renewal:
    """Renews something three times in its life until `end`, or until this object is forgotten.

    A failure that may pass is logged, and it tries again; one for good ends it and is kept.
    """

    def __init__(self, noun: str, name: str, renew: Callable[[], object], *, life_ms: int, lost: str) -> None:
        """Start; `renew` must not hold whoever holds this object. `lost` says what it means if it is lost."""
        self._ended = threading.Event()
        self._failure: list[PenstockError] = []
        pause_seconds = life_ms / RENEWALS_PER_LIFE / 1000
        _start(noun, name, renew, pause_seconds=pause_seconds, lost=lost, ended=self._ended, failure=self._failure)
        weakref.finalize(self, self._ended.set).atexit = False

    @property
    def failure(self) -> PenstockError | None:
        """Return why it ended by itself, None if it did not."""
        return self._failure[0] if self._failure else None

    def end(self) -> None:
        """Renew no more; idempotent."""
        self._ended.set()


def _start(
    noun: str,
    name: str,
    renew: Callable[[], object],
    *,
    pause_seconds: float,
    lost: str,
    ended: threading.Event,
    failure: list[PenstockError],
) -> None:
    """Renew in a thread that holds neither what it renews nor the process."""

    def run() -> None:
        while not ended.wait(pause_seconds):
            try:
                renew()
            except ClosedError:
                return
            except PenstockError as error:
                if ended.is_set():
                    return
                if error.retriable:
                    _log.error("%s was not renewed, trying again id=%s reason=%s", noun, name, error)
                    continue
                _log.error("%s is lost: %s id=%s reason=%s", noun, lost, name, error)
                failure.append(error)
                return

    threading.Thread(target=run, name=f"penstock-{noun}-{name}", daemon=True).start()
