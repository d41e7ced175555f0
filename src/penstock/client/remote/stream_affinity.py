"""The stream affinity of open scanners: their pages travel best on streams that serve rows of the same schema."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Final

from penstock.model.node.calls import OpenScan, Page

SCANNERS_MAX: Final = 4_096


class StreamAffinity:
    """The affinity of each scanner that was opened here and has more. Thread-safe; forgets those opened long ago."""

    def __init__(self, scanners_max: int = SCANNERS_MAX) -> None:
        self._scanners_max = scanners_max
        self._lock = threading.Lock()
        self._of: dict[str, Hashable] = {}

    def __len__(self) -> int:
        """Return how many scanners are known."""
        return len(self._of)

    def get(self, scanner_id: str) -> Hashable:
        """Return the affinity of a scanner; None if it is not known."""
        return self._of.get(scanner_id)

    def note(self, page: Page, affinity: Hashable) -> None:
        """Remember what a scanner's page was about, if there is more to come."""
        scanner_id = page.scanner_id
        if scanner_id is None or not page.has_more:
            self.forget(scanner_id)
            return
        with self._lock:
            self._of[scanner_id] = affinity
            if len(self._of) > self._scanners_max:
                del self._of[next(iter(self._of))]

    def forget(self, scanner_id: str | None) -> None:
        """Forget a scanner."""
        if scanner_id in self._of:
            with self._lock:
                self._of.pop(scanner_id, None)


def rows_affinity(call: OpenScan) -> Hashable:
    """Return what a scan is about: its rows have one schema for all scans of the same."""
    return call.table_id, call.schema_id, call.columns, call.offsets
