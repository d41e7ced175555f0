"""The lock that keeps a data directory with one process.

It is an flock on the file `LOCK`, which also says who holds it. The kernel drops the lock with the process, however
that ends; the file stays and means nothing by itself.

A forked child shares the lock's open file, and would hold the directory after its parent is gone. So every fork
closes the inherited descriptor in the child, without unlocking: the lock stays with the parent.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import socket
import sys
import weakref
from pathlib import Path
from typing import Any

from penstock.errors import DirectoryInUseError, InvalidError, PermissionDeniedError, UnavailableError
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.local_disk import DIRECTORY_MODE, FILE_MODE

_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


class DirectoryLock:
    """The right of one process to a data directory."""

    def __init__(self, disk_root: str | Path, *, clock: Clock | None = None) -> None:
        self._directory = Path(disk_root)
        self._path = str(self._directory / "LOCK")
        self._clock = clock or SystemClock()
        self._fd = -1

    @property
    def held(self) -> bool:
        """Tell whether this object holds the lock."""
        return self._fd >= 0

    @property
    def in_place(self) -> bool:
        """Tell whether the directory's path still leads to the lock that this object holds.

        It does not after the directory was moved or unmounted, or another was put in its place.
        """
        try:
            there, ours = os.stat(self._path), os.fstat(self._fd)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def check_in_place(self) -> None:
        """Raise if the directory's path leads elsewhere: who went on would write to two places.

        Raises:
            UnavailableError: it does; nothing was written.
        """
        if not self.in_place:
            raise UnavailableError(
                "the data directory is not where it was opened: it was moved, unmounted or replaced; "
                "put it back, or restart on it",
                directory=self._directory,
            )

    def acquire(self) -> None:
        """Take the lock, or say who has it.

        Raises:
            DirectoryInUseError: another process, or another lock of this one, holds the directory.
            OSError: the directory does not exist or cannot be written.
        """
        assert not self.held, "acquire follows release"
        fd = os.open(self._directory / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write_holder(fd)
        except BlockingIOError:
            holder = _read_holder(fd)
            os.close(fd)
            raise self._in_use(holder) from None
        except OSError:
            os.close(fd)
            raise
        self._fd = fd
        _held.add(self)

    def release(self) -> None:
        """Give the directory back; idempotent."""
        if self.held:
            # Unlock and not merely close: a child forked by foreign code may still have the descriptor.
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self._close()

    def _write_holder(self, fd: int) -> None:
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": self._clock.wall_ms(),
            "command": " ".join(sys.orig_argv),
        }
        data = json.dumps(holder).encode()
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))

    def _in_use(self, holder: dict[str, Any]) -> DirectoryInUseError:
        message = "directory is open in another process; close it or use a server"
        if holder.get("pid") == os.getpid() and holder.get("host") == socket.gethostname():
            message = "directory is already open in this process; use that connection or close it"
        started = holder.get("started")
        since = datetime.datetime.fromtimestamp(started / 1000, datetime.UTC).isoformat() if started else "unknown"
        return DirectoryInUseError(
            message,
            directory=str(self._directory),
            pid=holder.get("pid", "unknown"),
            command=holder.get("command", "unknown"),
            since=since,
        )

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        _held.discard(self)
        os.close(fd)

    def __enter__(self) -> DirectoryLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"DirectoryLock({str(self._directory)!r}, held={self.held})"


def take_directory(root: Path, *, clock: Clock | None = None) -> DirectoryLock:
    """Make a data directory if it is not there, and take it.

    Raises:
        DirectoryInUseError: another process, or this one, holds it.
        InvalidError: the path is that of a file.
        PermissionDeniedError: it may not be made or written.
        UnavailableError: the disk refuses it.
    """
    lock = DirectoryLock(root, clock=clock)
    try:
        root.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        lock.acquire()
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidError("the data directory is a file, or below one; name a directory", directory=root) from error
    except PermissionError as error:
        raise PermissionDeniedError(
            "the data directory may not be written; check its rights, or name another", directory=root
        ) from error
    except OSError as error:
        raise UnavailableError(
            "the data directory cannot be opened; check path and disk", directory=root, cause=error.strerror
        ) from error
    return lock


def _read_holder(fd: int) -> dict[str, Any]:
    """Return what the holder wrote about itself; nothing if it has the lock but not yet written."""
    try:
        holder = json.loads(os.pread(fd, 1 << 16, 0))
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def _close_inherited() -> None:
    for lock in list(_held):
        lock._close()


os.register_at_fork(after_in_child=_close_inherited)
