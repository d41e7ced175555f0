"""Renewal in the background, of what ends unless it is renewed: a lease, an owner."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Final

from penstock.client.link.link import Link
from penstock.errors import ClosedError, PenstockError
from penstock.model.node.owner_token import OwnerToken

_log = logging.getLogger("penstock")
RENEWALS_PER_LIFE: Final = 3
TRIES_PER_LIFE: Final = 60
"""How often it would try in a life in which each try fails: with 60 s, each second."""


class Renewal:
    """Renews something three times in its life until `end`, or until this object is forgotten. A context manager.

    After a failure that may pass it tries again sooner, and the first of a row of them is logged; one for good ends it
    and is kept.
    """

    def __init__(self, noun: str, name: str, renew: Callable[[], object], *, life_ms: int, lost: str) -> None:
        """Start; `renew` must not hold the holder of this object. `lost` says what it means if it is lost."""
        self._ended = threading.Event()
        self._failure: list[PenstockError] = []
        _start(noun, name, renew, life_seconds=life_ms / 1000, lost=lost, ended=self._ended, failure=self._failure)
        weakref.finalize(self, self._ended.set).atexit = False

    @classmethod
    def of_owner(cls, link: Link, token: bytes, ttl_ms: int) -> Renewal:
        """Renew the owner of a token."""
        name = OwnerToken.from_bytes(token).owner
        lost = "it may write nothing more"
        return cls("owner", name, lambda: link.node.owners.renew(token), life_ms=ttl_ms, lost=lost)

    @property
    def failure(self) -> PenstockError | None:
        """Return why it ended by itself, None if it did not."""
        return self._failure[0] if self._failure else None

    def end(self) -> None:
        """Renew no more; idempotent."""
        self._ended.set()

    def __enter__(self) -> Renewal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def _start(
    noun: str,
    name: str,
    renew: Callable[[], object],
    *,
    life_seconds: float,
    lost: str,
    ended: threading.Event,
    failure: list[PenstockError],
) -> None:
    """Renew in a thread that holds neither what it renews nor the process."""

    def run() -> None:
        failed = False
        while not ended.wait(life_seconds / (TRIES_PER_LIFE if failed else RENEWALS_PER_LIFE)):
            try:
                renew()
                failed = False
            except ClosedError:
                return
            except PenstockError as error:
                if ended.is_set():
                    return
                if error.retriable:
                    if not failed:
                        _log.error("%s was not renewed, trying again id=%s reason=%s", noun, name, error)
                    failed = True
                    continue
                _log.error("%s is lost: %s id=%s reason=%s", noun, lost, name, error)
                failure.append(error)
                return

    threading.Thread(target=run, name=f"penstock-{noun}-{name}", daemon=True).start()
