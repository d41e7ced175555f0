"""Files of a bucket that must stay although nothing in the bucket needs them: snapshots name them.

Compaction and checkpoints replace files and ask for the old ones to be removed. One that a snapshot
names waits here, and goes when the last snapshot that names it is gone.
"""

from __future__ import annotations

import threading


class KeptFiles:
    """The files that snapshots name, and those of them that wait for their removal. Thread-safe by one lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._named: dict[int, frozenset[str]] = {}
        self._waiting: set[str] = set()

    def keep(self, snapshot_id: int, names: frozenset[str]) -> None:
        """Keep the files of a snapshot."""
        with self._lock:
            self._named[snapshot_id] = names

    def let_go(self, snapshot_id: int) -> list[str]:
        """Keep the files of a snapshot no longer; return those whose time has come."""
        with self._lock:
            names = self._named.pop(snapshot_id, frozenset())
            free = {name for name in names & self._waiting if not self._is_named(name)}
            self._waiting -= free
            return sorted(free)

    def defer(self, name: str) -> bool:
        """Tell whether a file that nothing else needs must stay; if so it is remembered."""
        with self._lock:
            held = self._is_named(name)
            if held:
                self._waiting.add(name)
            return held

    def waiting(self, snapshot_ids: set[int]) -> set[str]:
        """Return the files that are there only because of these snapshots."""
        with self._lock:
            mine = {name for snapshot_id in snapshot_ids for name in self._named.get(snapshot_id, ())}
            others = {name for other, names in self._named.items() if other not in snapshot_ids for name in names}
            return (mine & self._waiting) - others

    def _is_named(self, name: str) -> bool:
        return any(name in names for names in self._named.values())
