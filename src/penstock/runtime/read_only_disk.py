"""A `Disk` on a directory that another process writes: nothing is changed here, and files may go at any time."""

from __future__ import annotations

import errno
import os
from typing import NoReturn

from penstock.errors import UnavailableError
from penstock.runtime.local_disk import LocalDisk, LocalReadFile


class ReadOnlyDisk(LocalDisk):
    """A directory tree that is only read. A file that is gone is UnavailableError, whatever was to be read of it."""

    def open_read(self, path: str) -> LocalReadFile:
        """Open an existing file for reading."""
        try:
            return super().open_read(path)
        except FileNotFoundError as error:
            raise gone(path) from error

    def read(self, path: str) -> bytes:
        """Return a whole (small) file."""
        try:
            return super().read(path)
        except FileNotFoundError as error:
            raise gone(path) from error

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""
        try:
            return super().size(path)
        except FileNotFoundError as error:
            raise gone(path) from error

    def settle(self, path: str) -> None:
        """Wait until what was read of a file is durable: its writer may be about to sync it.

        A file that is gone was durable in another place before it went.

        Raises:
            OSError: the disk lost it.
        """
        try:
            fd = os.open(self.root / path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.fdatasync(fd)
        except OSError as error:
            if error.errno not in {errno.EROFS, errno.EINVAL, errno.ENOSYS}:
                raise
        finally:
            os.close(fd)

    def sync_directory(self, directory: str) -> None:
        """Do nothing: whoever writes names makes them durable."""

    def create(self, path: str) -> NoReturn:
        """Refuse to create a file."""
        _refuse(path)

    def open_append(self, path: str, size: int) -> NoReturn:
        """Refuse to open a file for appending."""
        _refuse(path)

    def replace(self, source: str, target: str) -> NoReturn:
        """Refuse to rename a file."""
        _refuse(target)

    def remove(self, path: str) -> NoReturn:
        """Refuse to remove a file."""
        _refuse(path)

    def make_directory(self, directory: str) -> NoReturn:
        """Refuse to create a directory."""
        _refuse(directory)

    def remove_tree(self, directory: str) -> NoReturn:
        """Refuse to remove a directory."""
        _refuse(directory)


def gone(path: object) -> UnavailableError:
    """Return the error for a file that went while a read-only connection needed it."""
    error = UnavailableError(
        "the process that has the directory open replaced or removed a file since; open the directory again", file=path
    )
    error.lasting = True
    return error


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
