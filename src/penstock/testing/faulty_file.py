"""Files open on a `FaultyDisk`."""

from __future__ import annotations

import errno
from collections.abc import Callable

from penstock.testing.fault_plan import FaultPlan, Operation, os_error, whole
from penstock.testing.volatile_file import VolatileFile


class FaultyAppendFile:
    """A file open for appending; its operations carry the path it was opened with."""

    def __init__(
        self, gate: FaultPlan, path: str, file: VolatileFile, size: int, free_bytes: Callable[[], int]
    ) -> None:
        self._gate = gate
        self._path = path
        self._file = file
        self._size = size
        self._free_bytes = free_bytes
        self._closed = False

    @property
    def size(self) -> int:
        """Return the bytes appended; after a failed append, with those of its bytes that were written."""
        return self._size

    def append(self, *buffers: bytes | memoryview) -> int:
        """Append the buffers in order and return the new size."""
        data = b"".join(buffers)

        def write(done: float, _: Operation) -> None:
            count = int(len(data) * done)
            room = self._free_bytes() + self._file.size - self._size
            fitting = min(count, room)
            self._file.append(data if fitting == len(data) else data[:fitting])
            self._size += fitting
            if fitting < count:
                raise os_error(errno.ENOSPC, self._path)

        self._check_open()
        self._gate.perform("append", self._path, write, length=len(data))
        return self._size

    def truncate(self, size: int) -> None:
        """Cut the file back to `size` bytes, preallocated space included."""
        assert 0 <= size <= self._size, (size, self._size)

        def cut() -> None:
            self._file.truncate(size)
            self._size = size

        self._check_open()
        self._gate.perform("truncate", self._path, whole(cut))

    def preallocate(self, size: int) -> None:
        """Reserve space up to `size`; a disk without that much reserves none."""

        def reserve() -> None:
            if size - self._file.size <= self._free_bytes():
                self._file.preallocate(size)

        self._check_open()
        self._gate.perform("preallocate", self._path, whole(reserve))

    def rewrite(self) -> None:
        """Write all bytes again where they are."""
        self._check_open()
        self._gate.perform("rewrite", self._path, whole(self._file.rewrite))

    def sync(self) -> None:
        """Make everything appended durable; once this has failed, what it was to write is lost to later syncs."""

        def flush(done: float, operation: Operation) -> None:
            if done == 1.0 and not self._gate.skips(operation):
                self._file.sync()

        self._check_open()
        self._gate.perform("sync", self._path, flush, failed=self._file.fail_sync)

    def close(self) -> None:
        """Close the file."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise os_error(errno.EBADF, self._path)


class FaultyReadFile:
    """A file open for positioned reads. Thread-safe."""

    def __init__(self, gate: FaultPlan, path: str, file: VolatileFile) -> None:
        self._gate = gate
        self._path = path
        self._file = file
        self._size = file.size
        self._closed = False

    @property
    def size(self) -> int:
        """Return the file's size when it was opened."""
        return self._size

    def pread(self, position: int, length: int) -> memoryview:
        """Return up to `length` bytes at `position`, read-only."""
        assert position >= 0, position
        assert length >= 0, length
        with self._gate.lock:
            if self._closed:
                raise os_error(errno.EBADF, self._path)
            self._gate.before_read(self._path)
            return memoryview(self._file.read(position, length))

    def close(self) -> None:
        """Close the file."""
        self._closed = True
