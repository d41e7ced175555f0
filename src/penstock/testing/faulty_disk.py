"""A `Disk` in memory that fails, fills up, lies about syncs, and loses power.

What a power loss may do to bytes is in `volatile_file`, to names in `volatile_names`; how operations are made to fail
is in `fault_plan`. Reading a file, also one that others have open, needs no care: there is one copy of its bytes.
"""

from __future__ import annotations

import copy
import errno
import sys
from random import Random

from penstock.runtime.disk import Space
from penstock.testing.fault_plan import FaultPlan, Operation, os_error, whole
from penstock.testing.faulty_file import FaultyAppendFile, FaultyReadFile
from penstock.testing.volatile_file import VolatileFile
from penstock.testing.volatile_names import VolatileNames, is_under, parent_of


class FaultyDisk(FaultPlan):
    """A disk under the test's hand; `after_kill` and `after_power_loss` give the one that the next process finds.

    With `capacity_bytes` an append writes what fits and then fails with ENOSPC. Thread-safe.
    """

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        super().__init__()
        self.capacity_bytes = capacity_bytes
        self._names = VolatileNames()
        self._boots = 1

    def after_power_loss(self, seed: int) -> FaultyDisk:
        """Return a disk as it may look after the power failed now; this one is unchanged."""
        with self.lock:
            disk = self._successor(self._names.after_power_loss(Random(seed)))
            disk._boots += 1
            return disk

    def after_kill(self) -> FaultyDisk:
        """Return the disk as it is after the process was killed: the kernel still has all that was written."""
        with self.lock:
            return self._successor(copy.deepcopy(self._names))

    def _successor(self, names: VolatileNames) -> FaultyDisk:
        disk = FaultyDisk(capacity_bytes=self.capacity_bytes)
        disk._names = names
        disk._boots = self._boots
        return disk

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Damage one bit of a file, past all faults."""
        with self.lock:
            self._file(path).flip_bit(position, bit)

    def truncate_file(self, path: str, size: int) -> None:
        """Damage a file by losing its end, past all faults."""
        with self.lock:
            self._file(path).cut(size)

    def paths(self) -> list[str]:
        """Return the paths of all files, sorted."""
        with self.lock:
            return sorted(self._names.files)

    def create(self, path: str) -> FaultyAppendFile:
        """Create a file that must not exist, open for appending."""
        file = VolatileFile()

        def link() -> None:
            self._check_parent(path)
            if path in self._names.files or path in self._names.directories:
                raise os_error(errno.EEXIST, path)
            self._names.link(path, file)

        self.perform("create", path, whole(link))
        return FaultyAppendFile(self, path, file, 0, self._free_bytes)

    def open_append(self, path: str, size: int) -> FaultyAppendFile:
        """Open an existing file for appending at `size`; one shorter than that is EINVAL."""

        def cut() -> None:
            if self._file(path).size < size:
                raise os_error(errno.EINVAL, path)
            self._file(path).truncate(size)

        with self.lock:
            self.perform("open_append", path, whole(cut))
            return FaultyAppendFile(self, path, self._file(path), size, self._free_bytes)

    def open_read(self, path: str) -> FaultyReadFile:
        """Open an existing file for reading."""
        with self.lock:
            self.before_read(path)
            return FaultyReadFile(self, path, self._file(path))

    def read(self, path: str) -> bytes:
        """Return a whole (small) file."""
        with self.lock:
            self.before_read(path)
            file = self._file(path)
            return file.read(0, file.size)

    def replace(self, source: str, target: str) -> None:
        """Rename a file, replacing the target; directories are refused."""

        def move() -> None:
            file = self._file(source)
            self._check_parent(target)
            if target in self._names.directories:
                raise os_error(errno.EISDIR, target)
            if source != target:
                self._names.link(target, file, source=source)

        self.perform("replace", source, whole(move), target=target)

    def remove(self, path: str) -> None:
        """Remove a file that exists."""

        def unlink() -> None:
            self._file(path)
            self._names.unlink(path)

        self.perform("remove", path, whole(unlink))

    def list(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty if it does not exist."""
        with self.lock:
            self.before_read(directory)
            if directory in self._names.files:
                raise os_error(errno.ENOTDIR, directory)
            paths = (*self._names.files, *self._names.directories)
            return sorted(path.rpartition("/")[2] for path in paths if path and parent_of(path) == directory)

    def make_directory(self, directory: str) -> None:
        """Create a directory and its missing parents durably; with half of it done, not durably."""

        def make(done: float, operation: Operation) -> None:
            if any(path == directory or is_under(directory, path) for path in self._names.files):
                raise os_error(errno.ENOTDIR, directory)
            if done >= 0.5:
                self._names.make_directory(directory)
            if done == 1.0 and not self.skips(operation):
                self._names.sync_made(directory)

        self.perform("make_directory", directory, make)

    def remove_tree(self, directory: str) -> None:
        """Remove a directory with everything in it; no error if it does not exist."""
        assert directory, "the root is not removed"
        self.perform("remove_tree", directory, lambda done, _: self._names.remove_tree(directory, done))

    def sync_directory(self, directory: str) -> None:
        """Make creates, renames and removes in a directory durable."""

        def sync(done: float, operation: Operation) -> None:
            if directory not in self._names.directories:
                raise os_error(errno.ENOENT, directory)
            if done == 1.0 and not self.skips(operation):
                self._names.sync(directory)

        self.perform("sync_directory", directory, sync)

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory is there."""
        with self.lock:
            self.before_read(path)
            return path in self._names.files or path in self._names.directories

    def size(self, path: str) -> int:
        """Return a file's size in bytes, preallocated space included."""
        with self.lock:
            self.before_read(path)
            return self._file(path).size

    def space(self) -> Space:
        """Return what is left of the capacity, and the capacity; without one there is more than enough."""
        with self.lock:
            return Space(self._free_bytes(), sys.maxsize if self.capacity_bytes is None else self.capacity_bytes)

    def boot_id(self) -> bytes:
        """Return how often the power came back, and that there was power at all."""
        return self._boots.to_bytes(16, "big")

    def _check_parent(self, path: str) -> None:
        if parent_of(path) not in self._names.directories:
            raise os_error(errno.ENOENT, path)

    def _file(self, path: str) -> VolatileFile:
        if path in self._names.directories:
            raise os_error(errno.EISDIR, path)
        if path not in self._names.files:
            raise os_error(errno.ENOENT, path)
        return self._names.files[path]

    def _free_bytes(self) -> int:
        if self.capacity_bytes is None:
            return sys.maxsize
        return max(0, self.capacity_bytes - sum(file.size for file in self._names.files.values()))
