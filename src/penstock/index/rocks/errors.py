"""Errors for what RocksDB reports: by what the caller does next.

Damage that is met in use is noted in the directory. RocksDB opens such a store again without a word, and it is
of no more use then: the next opening is told, and makes it anew.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from penstock.errors import CorruptionError, DirectoryInUseError, DiskFullError, UnavailableError
from penstock.runtime.disk import Disk, write_atomically
from penstock.runtime.local_disk import LocalDisk

_DAMAGED: Final = "DAMAGED"
_NOT_DAMAGE: Final = (
    ("LOCK:", DirectoryInUseError, "another holder has the index open; close it first"),
    ("No space left on device", DiskFullError, "no space left for the index; free some and try again"),
    ("Too many open files", UnavailableError, "the process may open no more files; raise its limit"),
    ("Permission denied", UnavailableError, "the index directory may not be used; grant access to it"),
)


@contextmanager
def mapped(path: Path) -> Iterator[None]:
    """Turn what RocksDB and the file system report into errors that say what to do next."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskFullError("no space left for the index; free some and try again", path=path) from error
        raise UnavailableError("the index directory may not be used; grant access to it", path=path) from error
    except Exception as error:
        # rocksdict raises plain Exception for everything that RocksDB reports; other types are not its own.
        if type(error) is not Exception:
            raise
        reason = str(error)
        for mark, kind, message in _NOT_DAMAGE:
            if mark in reason:
                raise kind(message, path=path) from error
        with suppress(OSError):
            note_damage(LocalDisk(path))
        raise CorruptionError(
            "the index is damaged; open the data directory again to have it rebuilt", path=path, reason=reason
        ) from error


def note_damage(disk: Disk) -> None:
    """Note in an index's directory that damage was met, durably: what comes after may be a power loss.

    Raises:
        OSError: as the disk gave it.
    """
    write_atomically(disk, _DAMAGED, b"")


def check_undamaged(path: Path) -> None:
    """Refuse a store in which damage was met.

    Raises:
        CorruptionError: it was.
    """
    if (path / _DAMAGED).exists():
        raise CorruptionError("the index was found damaged when it was last used", path=path)
