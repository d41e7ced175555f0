"""The memory that the fronts of all buckets take together."""

from __future__ import annotations

import threading
from collections.abc import Callable


class FrontMemory:
    """Counts the bytes of tables and of dirty keys; asks for a table to be given up when there are too many."""

    def __init__(self, table_bytes_max: int, give_up: Callable[[], bool]) -> None:
        self._lock = threading.Lock()
        self._table_bytes_max = table_bytes_max
        self._give_up = give_up
        self.table_bytes = 0
        self.dirty_bytes = 0

    def change(self, *, tables: int = 0, dirty: int = 0) -> None:
        """Count so many bytes more, or less."""
        with self._lock:
            self.table_bytes += tables
            self.dirty_bytes += dirty

    def fits(self, extra: int) -> bool:
        """Tell whether tables may take so many bytes more as things are."""
        return self.table_bytes + extra <= self._table_bytes_max

    def make_room(self, extra: int) -> bool:
        """Tell whether tables may take so many bytes more, if need be in place of others."""
        while not self.fits(extra):
            if not self._give_up():
                return False
        return True
