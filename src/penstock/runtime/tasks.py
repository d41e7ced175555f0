"""Supervised background tasks: few daemon threads, no task twice at once, no failure unheard.

A periodic task that fails is logged, counted, and runs again after its interval, doubled for each failure in a row.
Threads are daemons and a group needs no close for the process to end, so work must be safe to lose at any moment.
In manual mode there are no threads: `run_due` runs what is due by the clock, in the caller.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.errors import ClosedError
from penstock.runtime.clock import Clock

T = TypeVar("T")

_log = logging.getLogger("penstock")
_BACKOFF_MS_MAX = 60_000


@dataclass(slots=True, eq=False)
class _Periodic:
    name: str
    interval_ms: int
    function: Callable[[], object]
    due_ms: int
    running: bool = False
    kicked: bool = False
    failures_in_a_row: int = 0

    def wait_ms(self) -> int:
        """Return the time until the next run: the interval, doubled per failure up to a cap."""
        backoff_ms = self.interval_ms << min(self.failures_in_a_row, 16)
        return min(backoff_ms, max(self.interval_ms, _BACKOFF_MS_MAX))


@dataclass(slots=True, eq=False)
class _Submitted:
    name: str
    function: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


class TaskGroup:
    """Tasks that live and end together. Thread-safe by its condition."""

    def __init__(self, clock: Clock, *, workers: int = 2, manual: bool = False) -> None:
        self._clock = clock
        self._manual = manual
        self._changed = threading.Condition()
        self._periodic: dict[str, _Periodic] = {}
        self._failures: Counter[str] = Counter()
        self._closed = False
        self._queue: queue.SimpleQueue[_Periodic | _Submitted | None] = queue.SimpleQueue()
        self._workers: list[threading.Thread] = []
        if not manual:
            self._workers = [_daemon(self._work, f"penstock-worker-{number}") for number in range(workers)]
            _daemon(self._watch, "penstock-timer")

    def every(self, name: str, interval_ms: int, function: Callable[[], object]) -> None:
        """Run a function every `interval_ms`, first after one interval; counted from the end of the run before."""
        assert interval_ms > 0, interval_ms
        with self._changed:
            self._check_open()
            assert name not in self._periodic, f"task exists: {name}"
            self._periodic[name] = _Periodic(name, interval_ms, function, self._clock.monotonic_ms() + interval_ms)
            self._changed.notify_all()

    def stop(self, name: str) -> None:
        """Forget a periodic task: no new run starts; one under way goes on to its end. Idempotent."""
        with self._changed:
            self._periodic.pop(name, None)

    def kick(self, name: str) -> None:
        """Run a periodic task as soon as possible; if it runs now, once more after that.

        One that was stopped meanwhile, or whose group was closed, needs no kick.
        """
        with self._changed:
            task = self._periodic.get(name)
            if task is None:
                return
            task.kicked = True
            task.due_ms = self._clock.monotonic_ms()
            self._changed.notify_all()

    def submit(self, name: str, function: Callable[[], T]) -> Future[T]:
        """Run a function once in the background.

        Raises:
            ClosedError: the group is closed.
        """
        task = _Submitted(name, function)
        with self._changed:
            self._check_open()
            self._queue.put(task)
        return task.future

    def run_due(self) -> int:
        """Run everything submitted or due, in this thread; return how many ran. For manual mode."""
        assert self._manual, "threads run the tasks of this group"
        with self._changed:
            self._enqueue_due()
        count = 0
        while not self._queue.empty():
            task = self._queue.get()
            assert task is not None
            self._run(task)
            count += 1
        return count

    def failures(self) -> dict[str, int]:
        """Return how often each task has failed, for those that have."""
        with self._changed:
            return dict(self._failures)

    def close(self, timeout_ms: int = 10_000) -> bool:
        """Start no more runs, cancel what waits, wait for what runs; tell whether all of it ended. Idempotent."""
        with self._changed:
            if not self._closed:
                self._closed = True
                self._periodic.clear()
                self._cancel_queued()
                for _ in self._workers:
                    self._queue.put(None)
            self._changed.notify_all()
        end_ms = self._clock.monotonic_ms() + timeout_ms
        others = [worker for worker in self._workers if worker is not threading.current_thread()]
        for worker in others:
            worker.join(max(0, end_ms - self._clock.monotonic_ms()) / 1000)
        return not any(worker.is_alive() for worker in others)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("task group is closed; open the directory again")

    def _cancel_queued(self) -> None:
        # A worker may take the last one at any moment: a wait for it here would last for ever.
        with suppress(queue.Empty):
            while True:
                task = self._queue.get_nowait()
                if isinstance(task, _Submitted):
                    task.future.cancel()

    def _enqueue_due(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for task in self._periodic.values():
            if task.due_ms <= now_ms and not task.running:
                task.running = True
                task.kicked = False
                self._queue.put(task)

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                self._enqueue_due()
                waiting = [task.due_ms for task in self._periodic.values() if not task.running]
                wait_ms = min(waiting) - self._clock.monotonic_ms() if waiting else None
                self._changed.wait(None if wait_ms is None else max(0, wait_ms) / 1000)

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            self._run(task)
            del task  # an idle worker must not keep alive what the function holds

    def _run(self, task: _Periodic | _Submitted) -> None:
        if isinstance(task, _Submitted):
            self._run_submitted(task)
        else:
            self._run_periodic(task)

    def _run_submitted(self, task: _Submitted) -> None:
        if not task.future.set_running_or_notify_cancel():
            return
        try:
            result = task.function()
        except BaseException as error:  # the supervisor: whatever it is, the waiting caller gets it
            self._note_failure(task.name, error)
            task.future.set_exception(error)
        else:
            task.future.set_result(result)

    def _run_periodic(self, task: _Periodic) -> None:
        with self._changed:
            stopped = self._periodic.get(task.name) is not task
        if stopped:
            return
        failed = False
        try:
            task.function()
        except BaseException as error:  # the supervisor: a task that ends its thread would end the others too
            failed = True
            self._note_failure(task.name, error)
        with self._changed:
            task.running = False
            task.failures_in_a_row = task.failures_in_a_row + 1 if failed else 0
            task.due_ms = self._clock.monotonic_ms() + (0 if task.kicked else task.wait_ms())
            self._changed.notify_all()

    def _note_failure(self, name: str, error: BaseException) -> None:
        with self._changed:
            self._failures[name] += 1
        _log.error("task failed name=%s", name, exc_info=error)


def _daemon(target: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread
