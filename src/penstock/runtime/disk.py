"""The one seam to storage. Every file access of every room goes through a `Disk`.

Paths are relative to the disk's root, with forward slashes. Errors are `OSError`, untouched: the
callers know what ENOSPC or EIO means for them. Nothing is durable before the matching sync:
`AppendFile.sync` for bytes, `sync_directory` for creates, renames and removes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Space(NamedTuple):
    """How much a disk has room for, in bytes."""

    free: int
    total: int


class AppendFile(Protocol):
    """A file open for appending. Not thread-safe; one owner."""

    @property
    def size(self) -> int:
        """Return the bytes appended (not the preallocated size)."""

    def append(self, *buffers: bytes | memoryview) -> int:
        """Append the buffers in order, gathered in one write where possible; return the new size.

        On an error part of the bytes may be in the file; `truncate` takes them back.
        """

    def truncate(self, size: int) -> None:
        """Cut the file (and its idea of `size`) back to `size` bytes."""

    def preallocate(self, size: int) -> None:
        """Reserve space so that the file can grow to `size` without new allocations; best effort.

        The reserved part reads as zeroes.
        """

    def rewrite(self) -> None:
        """Write all bytes again where they are: the next sync makes each durable, whatever an earlier one failed to.

        Takes no space. They are the same bytes: a crash meanwhile changes nothing.
        """

    def sync(self) -> None:
        """Make everything appended durable (fdatasync, and whatever metadata reading it back needs)."""

    def close(self) -> None:
        """Close the file; idempotent. Does not sync."""


class ReadFile(Protocol):
    """A file open for positioned reads. Thread-safe: a read has no position of its own."""

    @property
    def size(self) -> int:
        """Return the file's size when it was opened."""

    def pread(self, position: int, length: int) -> memoryview:
        """Return up to `length` bytes at `position`; fewer only at the end of the file."""

    def close(self) -> None:
        """Close the file; idempotent."""


class Disk(Protocol):
    """A directory tree with explicit durability."""

    def create(self, path: str) -> AppendFile:
        """Create a file that must not exist, open for appending."""

    def open_append(self, path: str, size: int) -> AppendFile:
        """Open an existing file for appending at `size`; bytes beyond are cut off."""

    def open_read(self, path: str) -> ReadFile:
        """Open an existing file for reading."""

    def read(self, path: str) -> bytes:
        """Return a whole (small) file."""

    def replace(self, source: str, target: str) -> None:
        """Rename, replacing the target; durable after `sync_directory` of the parent."""

    def remove(self, path: str) -> None:
        """Remove a file that exists."""

    def list(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty if it does not exist."""

    def make_directory(self, directory: str) -> None:
        """Create a directory and its missing parents durably; no error if it exists."""

    def remove_tree(self, directory: str) -> None:
        """Remove a directory with everything in it; no error if it does not exist."""

    def sync_directory(self, directory: str) -> None:
        """Make creates, renames and removes in a directory durable."""

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory is there."""

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""

    def space(self) -> Space:
        """Return what is free for this process, and how much there is."""

    def boot_id(self) -> bytes:
        """Return 16 bytes that are the same while the machine runs, and others once it lost what was not synced."""


def write_atomically(disk: Disk, path: str, data: bytes | Iterable[memoryview]) -> None:
    """Write a file, whole or in pieces, so that after a crash it is there whole, or as it was before.

    Raises:
        OSError: as the disk gave it; the target is unchanged.
    """
    temporary = path + ".tmp"
    if disk.exists(temporary):
        disk.remove(temporary)
    file = disk.create(temporary)
    try:
        for piece in [data] if isinstance(data, bytes) else data:
            file.append(piece)
        file.sync()
    finally:
        file.close()
    disk.replace(temporary, path)
    disk.sync_directory(path.rpartition("/")[0])
