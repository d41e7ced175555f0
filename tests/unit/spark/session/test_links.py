"""The way to the server: one for each process, and no silent waiting."""

from __future__ import annotations

import logging

import pytest

from penstock.spark.session.links import ServerWait, link_for, planning_link
from penstock.spark.session.options import Options


class Clock:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_wait_says_so_every_ten_seconds_and_begins_anew_after_a_success(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    waiting = ServerWait("penstock://x:1", monotonic=clock.monotonic, sleep=clock.sleep)

    with caplog.at_level(logging.WARNING, "penstock.spark"):
        for _ in range(25):
            waiting(1.0)
        clock.sleep(60)
        for _ in range(9):
            waiting(1.0)

    assert [record.getMessage() for record in caplog.records] == [
        "waiting for the server, trying again url=penstock://x:1 seconds=10",
        "waiting for the server, trying again url=penstock://x:1 seconds=20",
    ]


def test_process_has_one_way_for_tasks_and_a_less_patient_one_for_planning() -> None:
    options = Options({"url": "penstock://127.0.0.1:1", "retry_timeout": "5min"})

    assert link_for(options) is link_for(options)
    assert link_for(options).retry.deadline_ms == 300_000
    assert planning_link(options).retry.deadline_ms == 30_000
    # Also in the middle of reading: that is as long as the user said.
    assert planning_link(options).reading_retry.deadline_ms == 30_000
    assert planning_link(Options(options.for_spark() | {"retryTimeout": "1s"})).retry.deadline_ms == 1_000
