from __future__ import annotations

import logging
import queue
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest

from penstock.errors import ClosedError
from penstock.runtime.clock import SystemClock
from penstock.runtime.tasks import TaskGroup
from penstock.testing.manual_clock import ManualClock


class Boom(BaseException):
    """Something that is no `Exception`, and that the supervisor survives all the same."""


class Work:
    """Counts its runs; raises while `error` is set."""

    def __init__(self) -> None:
        self.runs = 0
        self.error: BaseException | None = None

    def __call__(self) -> int:
        self.runs += 1
        if self.error is not None:
            raise self.error
        return self.runs


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def tasks(clock: ManualClock) -> TaskGroup:
    return TaskGroup(clock, manual=True)


def test_periodic_task_runs_once_per_interval(tasks: TaskGroup, clock: ManualClock) -> None:
    work = Work()
    tasks.every("work", 100, work)

    ran = []
    for ms in (0, 99, 1, 0, 250, 99, 1):
        clock.advance(ms)
        ran.append(tasks.run_due())

    assert ran == [0, 0, 1, 0, 1, 0, 1]
    assert work.runs == 3


def test_wall_clock_jumps_move_no_task(tasks: TaskGroup, clock: ManualClock) -> None:
    tasks.every("work", 100, Work())

    clock.jump_wall(10_000_000)

    assert tasks.run_due() == 0


def test_kick_runs_a_periodic_task_now_and_restarts_its_interval(tasks: TaskGroup, clock: ManualClock) -> None:
    work = Work()
    tasks.every("work", 100, work)
    clock.advance(60)

    tasks.kick("work")
    tasks.kick("work")

    assert tasks.run_due() == 1
    clock.advance(99)
    assert tasks.run_due() == 0
    clock.advance(1)
    assert tasks.run_due() == 1


def test_kick_during_a_run_leads_to_one_more_run(tasks: TaskGroup) -> None:
    runs: list[int] = []

    def kick_itself_once() -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            tasks.kick("work")

    tasks.every("work", 100, kick_itself_once)
    tasks.kick("work")

    assert [tasks.run_due(), tasks.run_due(), tasks.run_due()] == [1, 1, 0]


def test_failing_task_is_logged_counted_and_backs_off_until_it_succeeds(
    tasks: TaskGroup, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work()
    work.error = RuntimeError("no luck")
    tasks.every("work", 100, work)

    waits = []
    with caplog.at_level(logging.ERROR, logger="penstock"):
        for _ in range(4):
            waited = 0
            while tasks.run_due() == 0:
                clock.advance(100)
                waited += 100
            waits.append(waited)
    work.error = None
    clock.advance(1600)
    tasks.run_due()
    clock.advance(100)

    assert waits == [100, 200, 400, 800]
    assert tasks.failures() == {"work": 4}
    assert {str(record.exc_info[1]) for record in caplog.records if record.exc_info} == {"no luck"}
    assert [record.getMessage() for record in caplog.records] == ["task failed name=work"] * 4
    assert tasks.run_due() == 1, "one success ends the backoff"


def test_backoff_is_capped(tasks: TaskGroup, clock: ManualClock) -> None:
    work = Work()
    work.error = OSError("always")
    tasks.every("work", 1000, work)
    for _ in range(40):
        clock.advance(60_000)
        tasks.run_due()

    assert work.runs == 40


def test_failures_of_one_task_do_not_hold_up_another(tasks: TaskGroup, clock: ManualClock) -> None:
    good, bad = Work(), Work()
    bad.error = Boom()
    tasks.every("bad", 100, bad)
    tasks.every("good", 100, good)

    clock.advance(100)

    assert tasks.run_due() == 2
    assert good.runs == 1
    assert tasks.failures() == {"bad": 1}


def test_submitted_task_gives_its_result_or_its_error(tasks: TaskGroup) -> None:
    bad = Work()
    bad.error = ValueError("wrong")

    results = [tasks.submit("good", lambda: 42), tasks.submit("bad", bad)]
    tasks.run_due()

    assert results[0].result(0) == 42
    with pytest.raises(ValueError, match="wrong"):
        results[1].result(0)
    assert tasks.failures() == {"bad": 1}


def test_cancelled_task_does_not_run(tasks: TaskGroup) -> None:
    work = Work()
    future = tasks.submit("work", work)

    assert future.cancel()
    tasks.run_due()

    assert work.runs == 0


def test_stopped_task_runs_no_more_and_its_name_is_free(tasks: TaskGroup, clock: ManualClock) -> None:
    old, new = Work(), Work()
    tasks.every("work", 100, old)

    tasks.stop("work")
    tasks.stop("work")
    tasks.every("work", 100, new)
    clock.advance(100)
    tasks.run_due()

    assert (old.runs, new.runs) == (0, 1)


def test_close_cancels_what_waits_and_refuses_more(tasks: TaskGroup, clock: ManualClock) -> None:
    work = Work()
    tasks.every("periodic", 100, work)
    future = tasks.submit("once", work)

    assert tasks.close()
    assert tasks.close()
    tasks.kick("periodic")

    clock.advance(1000)
    assert tasks.run_due() == 0
    assert work.runs == 0
    with pytest.raises(CancelledError):
        future.result(0)
    with pytest.raises(ClosedError):
        tasks.submit("late", work)
    with pytest.raises(ClosedError):
        tasks.every("late", 100, work)


def test_threads_run_submitted_and_periodic_tasks() -> None:
    tasks = TaskGroup(SystemClock())
    ran = threading.Semaphore(0)
    tasks.every("periodic", 1, ran.release)
    tasks.every("kicked", 3_600_000, ran.release)

    for _ in range(5):
        assert ran.acquire(timeout=30)
    tasks.stop("periodic")
    tasks.kick("kicked")

    assert tasks.submit("once", threading.get_ident).result(30) != threading.get_ident()
    assert tasks.close(30_000)


def test_threads_never_run_a_periodic_task_twice_at_once() -> None:
    tasks = TaskGroup(SystemClock(), workers=4)
    inside = threading.Lock()
    overlaps = []
    done = threading.Semaphore(0)

    def work() -> None:
        if not inside.acquire(blocking=False):
            overlaps.append(1)
            return
        tasks.kick("work")
        done.release()
        inside.release()

    tasks.every("work", 1, work)
    for _ in range(200):
        assert done.acquire(timeout=30)
    tasks.stop("work")
    tasks.close(30_000)

    assert overlaps == []


def test_close_waits_for_the_run_under_way_and_says_when_it_takes_too_long() -> None:
    tasks = TaskGroup(SystemClock())
    started, go_on = threading.Event(), threading.Event()
    finished = []

    def work() -> None:
        started.set()
        go_on.wait(30)
        finished.append(1)

    tasks.submit("slow", work)
    assert started.wait(30)

    assert not tasks.close(1)
    assert finished == []
    go_on.set()
    assert tasks.close(30_000)
    assert finished == [1]


def test_a_task_may_close_its_own_group() -> None:
    tasks = TaskGroup(SystemClock())

    assert tasks.submit("last", lambda: tasks.close(30_000)).result(30)


def test_a_group_never_closed_does_not_keep_the_process_alive() -> None:
    script = """
import threading
from penstock.runtime.clock import SystemClock
from penstock.runtime.tasks import TaskGroup
tasks = TaskGroup(SystemClock())
tasks.every("periodic", 1, lambda: None)
busy = threading.Event()
tasks.submit("stuck", lambda: (busy.set(), threading.Event().wait()))
busy.wait()
"""

    done = subprocess.run([sys.executable, "-c", script], timeout=60, check=False, capture_output=True)

    assert (done.returncode, done.stderr) == (0, b"")


class TakenQueue(queue.SimpleQueue[Any]):
    """A queue of which a worker always takes the last task right after somebody saw it."""

    def empty(self) -> bool:
        """Tell what was true a moment ago."""
        return False


@pytest.mark.timeout(20)
def test_closing_does_not_wait_for_a_task_that_a_worker_took_meanwhile() -> None:
    group = TaskGroup(SystemClock(), workers=1, manual=True)
    group._queue = TakenQueue()

    assert group.close()
