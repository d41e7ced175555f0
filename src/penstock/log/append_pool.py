"""Files that are appended to, under a cap on how many of them are open.

A bucket that is written keeps its segment, but not for ever its descriptor: the file that was not appended to for
longest is parked, synced and closed, and opened again where it ended when its bucket is written next. A parked file
holds no reserved space either.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict

from penstock.runtime.disk import AppendFile, Disk


class PooledFile:
    """An `AppendFile` that may be closed between two uses without its owner noticing. One owner."""

    def __init__(self, pool: AppendPool, disk: Disk, path: str, file: AppendFile) -> None:
        self._pool = pool
        self._disk = disk
        self._path = path
        self._lock = threading.Lock()
        """Held by the thread that uses the file: its owner, or one that parks it."""
        self._file: AppendFile | None = file
        self._size = file.size
        self._closed = False
        self._synced = False
        self._failure: OSError | None = None
        self.is_idle = False
        """Nothing was appended since the pool last looked for idle files."""

    @property
    def size(self) -> int:
        """Return the bytes appended; after a failed append, with those of its bytes that were written."""
        return self._size

    def append(self, *buffers: bytes | memoryview) -> int:
        """Append the buffers in order and return the new size."""
        with self._lock:
            file = self._opened()
            self.is_idle = self._synced = False
            try:
                return file.append(*buffers)
            finally:
                self._size = file.size

    def truncate(self, size: int) -> None:
        """Cut the file back to `size` bytes, reserved space included."""
        with self._lock:
            file = self._opened()
            self._synced = False
            file.truncate(size)
            self._size = size

    def preallocate(self, size: int) -> None:
        """Reserve space up to `size`; it is given back when the file is parked."""
        with self._lock:
            self._opened().preallocate(size)

    def rewrite(self) -> None:
        """Write all bytes again where they are."""
        with self._lock:
            file = self._opened()
            self._synced = False
            file.rewrite()

    def sync(self) -> None:
        """Make everything appended durable; a file that is parked was synced."""
        with self._lock:
            self._check_open()
            if self._failure is not None:
                raise self._failure
            if self._file is not None:
                self._file.sync()
                self._synced = True

    def close(self) -> None:
        """Close the file; idempotent. Does not sync."""
        with self._lock:
            self._closed = True
            file, self._file = self._file, None
            if file is not None:
                file.close()
        self._pool.forget(self)

    def park(self) -> bool:
        """Sync and close the file until it is used again, unless it is used now; tell whether it is closed."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._file is None or self._failure is not None:
                return self._file is None
            self._file.truncate(self._size)
            if not self._synced:
                self._file.sync()
            self._file.close()
            self._file = None
        except OSError as error:
            # A sync that failed says so once: its owner, who acknowledges what is synced, must hear of it.
            self._failure = error
            return False
        else:
            return True
        finally:
            self._lock.release()

    def _opened(self) -> AppendFile:
        self._check_open()
        if self._file is None:
            self._file = self._disk.open_append(self._path, self._size)
            self._synced = True
        self._pool.note_use(self)
        return self._file

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)


class AppendPool:
    """The files that are appended to, the one not used for longest parked first. Thread-safe.

    The cap is passed while more files than that are in use at one moment.
    """

    def __init__(self, disk: Disk, max_open: int) -> None:
        assert max_open > 0
        self._disk = disk
        self._max_open = max_open
        self._open: OrderedDict[PooledFile, None] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def open_count(self) -> int:
        """Return how many files are open."""
        return len(self._open)

    def create(self, path: str) -> PooledFile:
        """Create a file that must not exist, open for appending.

        Raises:
            OSError: as the disk gave it.
        """
        file = PooledFile(self, self._disk, path, self._disk.create(path))
        self.note_use(file)
        return file

    def note_use(self, file: PooledFile) -> None:
        """Count a file as open and as the last one used; park others for it if there are too many."""
        with self._lock:
            self._open[file] = None
            self._open.move_to_end(file)
            surplus = len(self._open) - self._max_open
            others = [other for other in self._open if other is not file] if surplus > 0 else []
        for other in others:
            if surplus <= 0:
                break
            surplus -= self._park(other)

    def forget(self, file: PooledFile) -> None:
        """Count a file that was closed no more."""
        with self._lock:
            self._open.pop(file, None)

    def park_idle(self) -> int:
        """Park the files that were not appended to since the last call; return how many."""
        with self._lock:
            idle = [file for file in self._open if file.is_idle]
            for file in self._open:
                file.is_idle = True
        return sum(self._park(file) for file in idle)

    def _park(self, file: PooledFile) -> bool:
        parked = file.park()
        if parked:
            self.forget(file)
        return parked
