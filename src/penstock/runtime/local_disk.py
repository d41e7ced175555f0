"""A `Disk` on a directory of this machine.

Python itself repeats system calls that a signal interrupted, so only short reads and writes are looped over here.
Reads and writes release the GIL.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final
from uuid import UUID

import numpy as np

from penstock.runtime.disk import Space

_GATHER_MAX = 1024  # IOV_MAX on Linux
_REWRITE_BYTES = 1 << 20
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NO_SPACE_RESERVED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
"""What is stored is for the user alone who runs the node."""


def check_relative(path: str) -> None:
    """Refuse a path that is not relative, normal, and below the root; the root itself is ''.

    A path may come from a file that was sent to us: a backup's inventory.

    Raises:
        OSError: it is none.
    """
    if path and any(part in {"", ".", ".."} for part in path.split("/")):
        raise OSError(errno.EINVAL, "the path does not stay below the root", path)


class LocalAppendFile:
    """A file open for appending, at a position of its own: the file may be longer by preallocated zeroes."""

    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self._size = size

    @property
    def size(self) -> int:
        """Return the bytes appended; after a failed append, with those of its bytes that were written."""
        return self._size

    def append(self, *buffers: bytes | memoryview) -> int:
        """Append the buffers in order and return the new size."""
        views = [memoryview(buffer).cast("B") for buffer in buffers if memoryview(buffer).nbytes]
        while views:
            written = os.pwritev(self._open_fd(), views[:_GATHER_MAX], self._size)
            if written == 0:
                raise OSError(errno.EIO, "write made no progress")
            self._size += written
            views = _without_prefix(views, written)
        return self._size

    def truncate(self, size: int) -> None:
        """Cut the file back to `size` bytes, preallocated space included."""
        assert 0 <= size <= self._size, (size, self._size)
        os.ftruncate(self._open_fd(), size)
        self._size = size

    def preallocate(self, size: int) -> None:
        """Reserve space up to `size`; a file system that cannot, or is full, reserves none."""
        if size <= self._size:
            return
        try:
            os.posix_fallocate(self._open_fd(), self._size, size - self._size)
        except OSError as error:
            if error.errno not in _NO_SPACE_RESERVED:
                raise

    def rewrite(self) -> None:
        """Write all bytes again where they are, in pieces."""
        position = 0
        while position < self._size:
            piece = os.pread(self._open_fd(), min(_REWRITE_BYTES, self._size - position), position)
            position += os.pwrite(self._open_fd(), piece, position)

    def sync(self) -> None:
        """Make everything appended durable; fdatasync covers a changed size as well."""
        os.fdatasync(self._open_fd())

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _open_fd(self) -> int:
        if self._fd < 0:
            raise _bad_descriptor()
        return self._fd

    def __del__(self) -> None:
        self.close()


def _without_prefix(views: list[memoryview], count: int) -> list[memoryview]:
    for index, view in enumerate(views):
        if count < view.nbytes:
            return [view[count:], *views[index + 1 :]]
        count -= view.nbytes
    return []


def _bad_descriptor() -> OSError:
    return OSError(errno.EBADF, os.strerror(errno.EBADF))


class LocalReadFile:
    """A file open for positioned reads.

    A close waits for the reads under way: their descriptor number could otherwise be taken by another file,
    and they would return its bytes.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._readers = 0
        self._closed = False
        self._size = os.fstat(fd).st_size

    @property
    def size(self) -> int:
        """Return the file's size when it was opened."""
        return self._size

    def pread(self, position: int, length: int) -> memoryview:
        """Return up to `length` bytes at `position`, read-only."""
        if position < 0 or length < 0:
            raise OSError(errno.EINVAL, f"no such place position={position} length={length}")
        with self._lock:
            if self._closed:
                raise _bad_descriptor()
            self._readers += 1
        try:
            return self._pread(position, length)
        finally:
            with self._lock:
                self._readers -= 1
                self._close_if_unused()

    def _pread(self, position: int, length: int) -> memoryview:
        if position + length > self._size:
            # The file may have grown; and a damaged length must not become an allocation of that size.
            length = max(0, min(length, os.fstat(self._fd).st_size - position))
        # np.empty does not fill the buffer with zeroes first, unlike bytearray.
        view = np.empty(length, dtype=np.uint8).data
        done = 0
        while done < length:
            count = os.preadv(self._fd, [view[done:]], position + done)
            if count == 0:
                break
            done += count
        return view[:done].toreadonly()

    def close(self) -> None:
        """Close the file, once the reads under way are done."""
        with self._lock:
            self._closed = True
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._closed and self._readers == 0 and self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class LocalDisk:
    """A directory tree on a local file system.

    `in_place` tells whether the root is still the directory that it was: names are changed in no other, nor made.
    """

    def __init__(self, root: str | Path, *, in_place: Callable[[], bool] = lambda: True) -> None:
        self._root = os.path.abspath(root)
        self._in_place = in_place
        self._durable_directories: set[str] = set()

    @property
    def root(self) -> Path:
        """Return the directory that paths are relative to."""
        return Path(self._root)

    def create(self, path: str) -> LocalAppendFile:
        """Create a file that must not exist, open for appending."""
        self._check_place(path)
        fd = os.open(self._absolute(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        return LocalAppendFile(fd, 0)

    def open_append(self, path: str, size: int) -> LocalAppendFile:
        """Open an existing file for appending at `size`; one shorter than that is EINVAL."""
        self._check_place(path)
        fd = os.open(self._absolute(path), os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_size < size:
                raise OSError(errno.EINVAL, f"file is shorter than size={size}", path)
            os.ftruncate(fd, size)
        except OSError:
            os.close(fd)
            raise
        return LocalAppendFile(fd, size)

    def open_read(self, path: str) -> LocalReadFile:
        """Open an existing file for reading."""
        return LocalReadFile(os.open(self._absolute(path), os.O_RDONLY | os.O_CLOEXEC))

    def read(self, path: str) -> bytes:
        """Return a whole (small) file."""
        return Path(self._absolute(path)).read_bytes()

    def replace(self, source: str, target: str) -> None:
        """Rename a file, replacing the target; directories are refused."""
        self._check_place(target)
        if os.path.isdir(self._absolute(source)):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), source)
        os.replace(self._absolute(source), self._absolute(target))

    def remove(self, path: str) -> None:
        """Remove a file that exists."""
        self._check_place(path)
        os.unlink(self._absolute(path))

    def list(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty if it does not exist."""
        try:
            return sorted(os.listdir(self._absolute(directory)))
        except FileNotFoundError:
            return []

    def make_directory(self, directory: str) -> None:
        """Create a directory and its missing parents durably, the root included.

        A directory that is there already may have been made by a process that died before it synced the parent,
        so each is synced once in the life of this object.
        """
        self._check_place(directory)
        absolute = self._absolute(directory)
        if absolute in self._durable_directories and os.path.isdir(absolute):
            return
        leaf = Path(absolute)
        chain = [path for path in (leaf, *leaf.parents) if path.is_relative_to(self._root) or not path.exists()]
        for path in reversed(chain):
            if str(path) in self._durable_directories and path.is_dir():
                continue
            with contextlib.suppress(FileExistsError):
                path.mkdir(DIRECTORY_MODE)
            if not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory)
            self._sync_made(path)
            self._durable_directories.add(str(path))

    def _sync_made(self, path: Path) -> None:
        try:
            _sync_directory(path.parent)
        except PermissionError:
            # What holds the root may be closed to us; then another user has made the root.
            if str(path) != self._root:
                raise

    def remove_tree(self, directory: str) -> None:
        """Remove a directory with everything in it; no error if it does not exist."""
        if not directory:
            raise OSError(errno.EINVAL, "the root is not removed")
        absolute = self._absolute(directory)
        gone = {path for path in self._durable_directories if path == absolute or path.startswith(absolute + "/")}
        self._durable_directories -= gone
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(absolute)

    def sync_directory(self, directory: str) -> None:
        """Make creates, renames and removes in a directory durable."""
        self._check_place(directory)
        _sync_directory(self._absolute(directory))

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory is there."""
        return os.path.exists(self._absolute(path))

    def size(self, path: str) -> int:
        """Return a file's size in bytes, preallocated space included."""
        return os.stat(self._absolute(path)).st_size

    def space(self) -> Space:
        """Return what the file system has free for this user, and how much it has."""
        found = os.statvfs(self._root)
        return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    def boot_id(self) -> bytes:
        """Return the kernel's own id of its boot; where there is none, one that no other process has."""
        return _boot_id()

    def _check_place(self, path: str) -> None:
        if not self._in_place():
            raise OSError(errno.ESTALE, "the data directory is not where it was opened", path)

    def _absolute(self, path: str) -> str:
        check_relative(path)
        return f"{self._root}/{path}" if path else self._root

    def __repr__(self) -> str:
        return f"LocalDisk({self._root!r})"


@cache
def _boot_id() -> bytes:
    try:
        return UUID(_BOOT_ID.read_text().strip()).bytes
    except (OSError, ValueError):
        return os.urandom(16)


def _sync_directory(path: str | Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
