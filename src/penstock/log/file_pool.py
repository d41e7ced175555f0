"""Open files, shared by all readers of a node, under a cap.

A file in use is never closed: it goes when its last reader lets go, if by then it was evicted or
dropped. So the cap may be passed for a moment by as many files as there are readers.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from penstock.runtime.disk import Disk, ReadFile


class _Entry:
    __slots__ = ("dropped", "file", "readers")

    def __init__(self, file: ReadFile) -> None:
        self.file = file
        self.readers = 0
        self.dropped = False


class FilePool:
    """Files opened on first use, the least recently used closed first.

    Thread-safe by one lock, which is not held while a file is opened.
    """

    def __init__(self, disk: Disk, max_open: int) -> None:
        assert max_open > 0
        self._disk = disk
        self._max_open = max_open
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def open_count(self) -> int:
        """Return the number of files that are open and not on their way out."""
        return len(self._entries)

    def pread(self, path: str, position: int, length: int) -> memoryview:
        """Return up to `length` bytes of a file; fewer only at its end.

        Raises:
            OSError: as the disk gave it.
        """
        entry = self._acquire(path)
        try:
            return entry.file.pread(position, length)
        finally:
            self._release(entry)

    def size(self, path: str) -> int:
        """Return the size of a file.

        Raises:
            OSError: as the disk gave it.
        """
        entry = self._acquire(path)
        try:
            return entry.file.size
        finally:
            self._release(entry)

    def drop(self, path: str) -> None:
        """Close a file, when it is read no more; no error if it is not open."""
        with self._lock:
            entry = self._entries.pop(path, None)
            unused = entry is not None and self._let_go(entry)
        if entry is not None and unused:
            entry.file.close()

    def drop_under(self, directory: str) -> None:
        """Close the files below a directory that is removed: an open file keeps its space."""
        with self._lock:
            paths = [path for path in self._entries if path.startswith(f"{directory}/")]
        for path in paths:
            self.drop(path)

    def close(self) -> None:
        """Close everything that is not in use, and the rest when it is let go."""
        for path in list(self._entries):
            self.drop(path)

    def _acquire(self, path: str) -> _Entry:
        with self._lock:
            entry = self._entries.get(path)
            if entry is not None:
                self._entries.move_to_end(path)
                entry.readers += 1
                return entry
        # Opening happens outside the lock; the second thread throws its file away.
        opened = self._disk.open_read(path)
        unused = [opened]
        with self._lock:
            entry = self._entries.get(path)
            if entry is None:
                entry = self._entries[path] = _Entry(opened)
                unused = self._evict(keep=path)
            entry.readers += 1
        for file in unused:
            file.close()
        return entry

    def _release(self, entry: _Entry) -> None:
        with self._lock:
            entry.readers -= 1
            unused = entry.dropped and entry.readers == 0
        if unused:
            entry.file.close()

    def _evict(self, *, keep: str) -> list[ReadFile]:
        excess = len(self._entries) - self._max_open
        victims = [path for path in list(self._entries)[: max(excess, 0)] if path != keep]
        entries = [self._entries.pop(path) for path in victims]
        return [entry.file for entry in entries if self._let_go(entry)]

    @staticmethod
    def _let_go(entry: _Entry) -> bool:
        entry.dropped = True
        return entry.readers == 0
