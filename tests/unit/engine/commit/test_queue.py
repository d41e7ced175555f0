"""What waits for the committer: groups, the moment that callers are given to come back, steps, the end."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from penstock.engine.commit.group import QueuedWrite
from penstock.engine.commit.pending_result import PendingResult
from penstock.engine.commit.queue import GATHER_BYTES_MAX, Step, WriteQueue
from penstock.errors import UnavailableError

PATIENCE = 60.0
"""Longer than any test lasts: who waits for it in vain hangs."""


class Now:
    """A time that only the test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def new_queue(now: Now) -> WriteQueue:
    return WriteQueue(lambda: None, gather_seconds_max=PATIENCE, monotonic=now)


def a_write(size_bytes: int = 10, writer_id: bytes = bytes(16)) -> QueuedWrite:
    return QueuedWrite(parts={}, rows=1, size_bytes=size_bytes, writer_id=writer_id)


def a_step() -> Step:
    return (lambda: None, PendingResult())


def after_a_group(queue: WriteQueue, now: Now, callers: int, size_bytes: int = 10) -> None:
    """Let so many callers be answered by a group that took a minute."""
    for _ in range(callers):
        queue.put(a_write(size_bytes))
    assert len(group_of(queue.take())) == callers
    now.seconds += PATIENCE
    queue.expect_again(callers)


def group_of(taken: list[QueuedWrite] | Step | None) -> list[QueuedWrite]:
    assert isinstance(taken, list)
    return taken


def taking(queue: WriteQueue, pool: ThreadPoolExecutor, wanted: int) -> Future[list[QueuedWrite] | Step | None]:
    """Take in another thread; return once that one waits for as many as are wanted, or was content with less."""
    taken = pool.submit(queue.take)
    pause = threading.Event()
    while queue._wanted != wanted and not taken.done():
        pause.wait(0.001)
    return taken


def test_those_just_answered_are_waited_for() -> None:
    now = Now()
    queue = new_queue(now)
    after_a_group(queue, now, callers=3)
    queue.put(a_write())

    with ThreadPoolExecutor(1) as pool:
        taken = taking(queue, pool, wanted=3)
        queue.put(a_write())
        queue.put(a_write())

    assert len(group_of(taken.result())) == 3


def test_a_lone_caller_waits_for_nobody() -> None:
    now = Now()
    queue = new_queue(now)
    after_a_group(queue, now, callers=1)

    queue.put(a_write())

    assert len(group_of(queue.take())) == 1


def test_those_who_do_not_come_back_are_waited_for_once_and_no_longer_than_their_group_took() -> None:
    now = Now()
    queue = WriteQueue(lambda: None, gather_seconds_max=0.001, monotonic=lambda: now.seconds)
    after_a_group(queue, now, callers=2)
    queue.put(a_write())

    with ThreadPoolExecutor(1) as pool:
        taken = taking(queue, pool, wanted=2)
        now.seconds += 0.001
        first = group_of(taken.result())
    queue.put(a_write())

    assert len(first) == 1
    assert len(group_of(queue.take())) == 1


def test_large_groups_are_not_waited_for() -> None:
    now = Now()
    queue = new_queue(now)
    after_a_group(queue, now, callers=2, size_bytes=GATHER_BYTES_MAX)

    queue.put(a_write())

    assert len(group_of(queue.take())) == 1


def test_a_step_ends_the_waiting_and_comes_after_what_came_before_it() -> None:
    now = Now()
    queue = new_queue(now)
    after_a_group(queue, now, callers=3)
    queue.put(a_write())

    with ThreadPoolExecutor(1) as pool:
        taken = taking(queue, pool, wanted=3)
        step = a_step()
        queue.put(step)

    assert len(group_of(taken.result())) == 1
    assert queue.take() is step


def test_what_a_step_commits_makes_nobody_wait() -> None:
    now = Now()
    queue = new_queue(now)
    queue.put(a_step())
    queue.take()
    now.seconds += PATIENCE
    queue.expect_again(5)

    queue.put(a_write())

    assert len(group_of(queue.take())) == 1


def test_a_writer_is_in_a_group_once() -> None:
    queue = new_queue(Now())
    for writer in (b"a", b"b", b"a"):
        queue.put(a_write(writer_id=writer * 16))

    assert [write.writer_id[:1] for write in group_of(queue.take())] == [b"a", b"b"]
    assert [write.writer_id[:1] for write in group_of(queue.take())] == [b"a"]


def test_closing_ends_the_waiting_and_what_waits_is_still_taken() -> None:
    now = Now()
    queue = new_queue(now)
    after_a_group(queue, now, callers=2)
    queue.put(a_write())

    with ThreadPoolExecutor(1) as pool:
        taken = taking(queue, pool, wanted=2)
        closed_first = queue.close(UnavailableError("closed"))

    assert closed_first
    assert not queue.close(UnavailableError("closed again"))
    assert len(group_of(taken.result())) == 1
    assert queue.take() is None
    with pytest.raises(UnavailableError, match="closed"):
        queue.put(a_write())
