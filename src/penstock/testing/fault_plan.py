"""The fault plan of a `FaultyDisk`: every operation passes it, is counted, and fails if that was planned.

Mutating operations have numbers, from 0; the next one's is `operations`. So a test can run a workload once to count
them, then once more for each number. Reads are not counted and have faults of their own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from penstock.runtime.local_disk import check_relative

Kind = Literal[
    "create",
    "open_append",
    "append",
    "truncate",
    "preallocate",
    "rewrite",
    "sync",
    "replace",
    "remove",
    "make_directory",
    "remove_tree",
    "sync_directory",
    "read",
]


class SimulatedCrash(BaseException):
    """The process is dead; nothing it does reaches the disk any more. Not an `Exception`: no handler survives it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call to the disk; `target` is where a replace goes, `length` what an append brings."""

    number: int
    kind: Kind
    path: str
    length: int = 0
    target: str = ""


Predicate = Callable[[Operation], bool]
Act = Callable[[float, Operation], None]
"""Carries out a part, from 0 to 1, of an operation."""


@dataclass(slots=True)
class _Fault:
    matches: Predicate
    error: int | None  # None: the process dies
    done: float
    times: int | None


class FaultPlan:
    """Faults to come, and whether the process still lives. Thread-safe.

    A fault strikes the operations that match. It first lets the part `done` (0 to 1) of the operation happen; one that
    cannot be divided, such as a rename or a sync, happens at 1 only. Of faults that match, the first planned strikes.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._mutation_faults: list[_Fault] = []
        self._read_faults: list[_Fault] = []
        self._skipped_syncs: list[Predicate] = []
        self._crash: Operation | None = None
        self._operations = 0

    @property
    def operations(self) -> int:
        """Return how many mutating operations there were: the number of the next."""
        return self._operations

    @property
    def crashed(self) -> bool:
        """Tell whether a simulated crash has struck: then every operation raises `SimulatedCrash`."""
        return self._crash is not None

    def fail_at(self, number: int, error: int, *, done: float = 0.0) -> None:
        """Let operation `number` fail with an errno; an append with `done` above 0 is a torn write."""
        self.fail_when(lambda operation: operation.number == number, error, done=done, times=1)

    def fail_when(self, matches: Predicate, error: int, *, done: float = 0.0, times: int | None = None) -> None:
        """Let mutating operations that match fail with an errno, always or the next `times`."""
        assert 0.0 <= done <= 1.0, done
        with self.lock:
            self._mutation_faults.append(_Fault(matches, error, done, times))

    def fail_reads_when(self, matches: Predicate, error: int, *, times: int | None = None) -> None:
        """Let reads that match fail with an errno, always or the next `times`."""
        with self.lock:
            self._read_faults.append(_Fault(matches, error, 0.0, times))

    def crash_at(self, number: int, *, done: float = 0.0) -> None:
        """Let the process die in operation `number`."""
        self.crash_when(lambda operation: operation.number == number, done=done)

    def crash_when(self, matches: Predicate, *, done: float = 0.0) -> None:
        """Let the process die in the first mutating operation that matches."""
        assert 0.0 <= done <= 1.0, done
        with self.lock:
            self._mutation_faults.append(_Fault(matches, None, done, 1))

    def skip_syncs(self, matches: Predicate) -> None:
        """Let `sync`, `sync_directory` and the sync within `make_directory` silently do nothing where they match."""
        with self.lock:
            self._skipped_syncs.append(matches)

    def clear_faults(self) -> None:
        """Forget all faults and skipped syncs; a crash that struck stays."""
        with self.lock:
            self._mutation_faults.clear()
            self._read_faults.clear()
            self._skipped_syncs.clear()

    def skips(self, operation: Operation) -> bool:
        """Tell whether this sync shall do nothing."""
        return any(matches(operation) for matches in self._skipped_syncs)

    def perform(
        self,
        kind: Kind,
        path: str,
        act: Act,
        *,
        length: int = 0,
        target: str = "",
        failed: Callable[[], None] | None = None,
    ) -> None:
        """Count a mutating operation and carry it out, or as much as its fault lets; `failed` follows an error."""
        check_relative(path)
        check_relative(target)
        with self.lock:
            self._check_alive()
            operation = Operation(self._operations, kind, path, length, target)
            self._operations += 1
            fault = _strike(self._mutation_faults, operation)
            if fault is None:
                act(1.0, operation)
                return
            if fault.done > 0.0:
                act(fault.done, operation)
            if fault.error is None:
                self._crash = operation
                raise SimulatedCrash(operation)
            if failed is not None:
                failed()
            raise os_error(fault.error, path)

    def before_read(self, path: str) -> None:
        """Let a read pass, or fail."""
        check_relative(path)
        with self.lock:
            self._check_alive()
            fault = _strike(self._read_faults, Operation(self._operations, "read", path))
            if fault is not None:
                assert fault.error is not None
                raise os_error(fault.error, path)

    def _check_alive(self) -> None:
        if self._crash is not None:
            raise SimulatedCrash(self._crash)


def _strike(faults: list[_Fault], operation: Operation) -> _Fault | None:
    for fault in faults:
        if fault.times != 0 and fault.matches(operation):
            if fault.times is not None:
                fault.times -= 1
            return fault
    return None


def whole(act: Callable[[], None]) -> Act:
    """Return an act that cannot be divided."""

    def act_at_once(done: float, _: Operation) -> None:
        if done == 1.0:
            act()

    return act_at_once


def os_error(error: int, path: str) -> OSError:
    """Return the `OSError` that the kernel's errno becomes, of the right subclass."""
    return OSError(error, os.strerror(error), path)
