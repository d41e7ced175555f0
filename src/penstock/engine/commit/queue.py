"""The queue of a committer: writes and steps, in the order in which they came.

Writes that wait together are committed together. Callers that were just answered tend to write
again at once, so the next group waits a moment for them: without it a crowd of callers would fall
into two halves, each waiting for the other's sync, and pay for twice as many groups.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from penstock.engine.commit.group import QueuedWrite
from penstock.engine.commit.pending_result import PendingResult
from penstock.errors import PenstockError
from penstock.model.place.facts import NO_ID

Step = tuple[Callable[[], Any], PendingResult[Any]]
"""Something to do between two groups, and who waits for it."""

CALLS_MAX: Final = 64
BYTES_MAX: Final = 8 << 20
IDLE_SECONDS: Final = 10.0

GATHER_SECONDS_MAX: Final = 0.005
GATHER_BYTES_MAX: Final = 64 << 10
"""A group this large is worth its sync by itself; waiting would only keep the committer idle."""


class WriteQueue:
    """Hands groups of writes, and single steps, to the one thread that takes them. Thread-safe by its condition."""

    def __init__(
        self,
        start_taker: Callable[[], None],
        *,
        gather_seconds_max: float = GATHER_SECONDS_MAX,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the queue; `start_taker` is called when something waits and no thread takes."""
        self._start_taker = start_taker
        self._gather_seconds_max = gather_seconds_max
        self._monotonic = monotonic
        self._items: deque[QueuedWrite | Step] = deque()
        self._changed = threading.Condition()
        self._taken = False
        self._wanted = 1
        """How many items wake the taker."""
        self._expected = 0
        """How many writes the next group may have, if all who wrote last write again."""
        self._patience = 0.0
        """How long to wait for them, in seconds."""
        self._group_bytes = 0
        self._group_began: float | None = None
        """When the group under way was taken; None while there is none."""
        self.closed: PenstockError | None = None

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: QueuedWrite | Step) -> None:
        """Let an item wait.

        Raises:
            PenstockError: the queue is closed; why.
        """
        with self._changed:
            if self.closed is not None:
                raise self.closed
            self._items.append(item)
            if not isinstance(item, QueuedWrite):
                self._expected = 0
            if not self._taken:
                self._taken = True
                self._start_taker()
            elif len(self._items) >= min(self._wanted, self._expected or 1):
                self._changed.notify()

    def take(self) -> list[QueuedWrite] | Step | None:
        """Wait for the next group or step; None if nothing came for long or will come: then take no more."""
        with self._changed:
            while not self._items:
                if self.closed is not None or not self._changed.wait(IDLE_SECONDS):
                    if self._items:
                        break
                    self._taken = False
                    return None
            if not isinstance(self._items[0], QueuedWrite):
                self._group_began = None
                step = self._items.popleft()
                assert isinstance(step, tuple)
                return step
            self._gather()
            group = list(self._drain())
            self._group_bytes = sum(write.size_bytes for write in group)
            self._group_began = self._monotonic()
            return group

    def expect_again(self, callers: int) -> None:
        """Say that so many callers are about to be answered, before they are: they may well write again."""
        with self._changed:
            if self._group_began is None or self._group_bytes > GATHER_BYTES_MAX:
                return
            self._expected = callers + len(self._items)
            self._patience = min(self._monotonic() - self._group_began, self._gather_seconds_max)

    def close(self, reason: PenstockError) -> bool:
        """Refuse what comes from now on; what waits is still taken. Tell whether it was open."""
        with self._changed:
            if self.closed is not None:
                return False
            self.closed = reason
            self._changed.notify_all()
            return True

    def _gather(self) -> None:
        """Wait for those who were just answered, no longer than their group took, and only once."""
        end = self._monotonic() + self._patience
        while len(self._items) < min(self._expected, CALLS_MAX) and self.closed is None:
            left = end - self._monotonic()
            if left <= 0:
                break
            self._wanted = self._expected
            self._changed.wait(left)
        self._wanted, self._expected, self._patience = 1, 0, 0.0

    def _drain(self) -> Iterator[QueuedWrite]:
        """Yield the writes of the next group; a writer occurs once, so that its retry sees the first try."""
        size, calls, writers = 0, 0, set()
        while self._items and calls < CALLS_MAX:
            write = self._items[0]
            if not isinstance(write, QueuedWrite) or write.writer_id in writers:
                return
            if calls and size + write.size_bytes > BYTES_MAX:
                return
            if write.writer_id != NO_ID:
                writers.add(write.writer_id)
            self._items.popleft()
            calls, size = calls + 1, size + write.size_bytes
            yield write
