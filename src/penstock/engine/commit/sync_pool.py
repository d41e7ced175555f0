"""Syncs of several files side by side: a disk commits many in about the time of one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from penstock.engine.commit.pending_result import PendingResult


class SyncPool:
    """A few daemon threads that run syncs. Thread-safe: its queue is, and a lock starts and ends the threads."""

    def __init__(self, threads: int = 8) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[[], None], PendingResult[None]] | None] = queue.SimpleQueue()
        self._threads = threads
        self._started = False
        self._lock = threading.Lock()

    def run_all(self, syncs: Sequence[Callable[[], None]]) -> list[BaseException | None]:
        """Run all syncs, return when all are done; the error of each, None where it went well."""
        if len(syncs) > 1:
            self._start()
        answers: list[PendingResult[None]] = [PendingResult() for _ in syncs]
        for sync, answer in zip(syncs[1:], answers[1:], strict=True):
            self._queue.put((sync, answer))
        if syncs:
            _run(syncs[0], answers[0])
        return [answer.exception() for answer in answers]

    def close(self) -> None:
        """End the threads; idempotent."""
        with self._lock:
            if self._started:
                self._started = False
                for _ in range(self._threads):
                    self._queue.put(None)

    def _start(self) -> None:
        with self._lock:
            if not self._started:
                self._started = True
                for number in range(self._threads):
                    threading.Thread(target=self._work, name=f"penstock-sync-{number}", daemon=True).start()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            _run(*item)


def _run(sync: Callable[[], None], answer: PendingResult[None]) -> None:
    try:
        sync()
    except BaseException as error:  # noqa: BLE001 - handed to the caller, who waits for the sync
        answer.set_exception(error)
    else:
        answer.set_result(None)
