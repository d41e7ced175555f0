"""The state of a node: usable while it is open and its directory is where it was."""

from __future__ import annotations

from penstock.errors import ClosedError
from penstock.runtime.directory_lock import DirectoryLock


class NodeState:
    """Open, then closed for good. Thread-safe: one flag, set once."""

    def __init__(self, lock: DirectoryLock | None = None) -> None:
        """Watch the lock of the node's directory, if it has one."""
        self._lock = lock
        self.closed = False

    @property
    def in_place(self) -> bool:
        """Tell whether the directory is still the one that was locked, and not one moved into its place."""
        return self._lock is None or self._lock.in_place

    def check_in_place(self) -> None:
        """Raise ClosedError if the directory was moved away under the node."""
        if self._lock is not None:
            self._lock.check_in_place()

    def check(self) -> None:
        """Refuse a call that comes too late.

        Raises:
            ClosedError: the node is closed, or its directory was moved away.
        """
        if self.closed:
            raise ClosedError("the node is closed")
        self.check_in_place()

    def release(self) -> None:
        """Let another process have the directory."""
        if self._lock is not None:
            self._lock.release()
