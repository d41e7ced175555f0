"""The pending result of a call: what its caller waits for, a result or an error, told once.

`concurrent.futures.Future` does the same for cancellation, callbacks and many waiters at a price
that shows on one-row writes: its condition makes a lock for each wait. Here one lock is the gate.
"""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class PendingResult(Generic[T]):
    """The outcome of one call that another thread works on. Thread-safe: told once, before the gate opens."""

    __slots__ = ("_error", "_gate", "_result", "_told")

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self._told = False
        self._error: BaseException | None = None
        self._result: T

    def done(self) -> bool:
        """Tell whether the outcome is known."""
        return self._told

    def set_result(self, result: T) -> None:
        """Tell the result."""
        assert not self._told
        self._result = result
        self._open()

    def set_exception(self, error: BaseException) -> None:
        """Tell what went wrong."""
        assert not self._told
        self._error = error
        self._open()

    def result(self) -> T:
        """Wait for the outcome; return the result or raise the error."""
        self._wait()
        if self._error is not None:
            raise self._error
        return self._result

    def exception(self) -> BaseException | None:
        """Wait for the outcome; return the error, None if it went well."""
        self._wait()
        return self._error

    def _open(self) -> None:
        self._told = True
        self._gate.release()

    def _wait(self) -> None:
        if not self._told:
            with self._gate:
                pass
