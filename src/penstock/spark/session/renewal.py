"""Signs of life for an owner, while a driver or a task is at work."""

from __future__ import annotations

import threading
from types import TracebackType

from penstock.client.link.link import Link
from penstock.errors import PenstockError


class Renewal:
    """Renews an owner every third of its time, until closed. A context manager."""

    def __init__(self, link: Link, token: bytes, ttl_ms: int) -> None:
        self._link = link
        self._token = token
        self._seconds = ttl_ms / 3000
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-renewal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the renewals; idempotent."""
        self._ended.set()

    def __enter__(self) -> Renewal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                self._link.node.owners.renew(self._token)
            except PenstockError as error:
                # Away: the next round tries again. Fenced: whoever writes next is told so, and by whom.
                if not error.retriable:
                    return
