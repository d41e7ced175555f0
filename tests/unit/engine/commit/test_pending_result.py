from __future__ import annotations

import threading

import pytest

from penstock.engine.commit.pending_result import PendingResult


def test_result_waits_for_whoever_works_on_it() -> None:
    answer: PendingResult[int] = PendingResult()
    got: list[int] = []
    waiters = [threading.Thread(target=lambda: got.append(answer.result())) for _ in range(4)]
    for waiter in waiters:
        waiter.start()

    assert not answer.done()
    answer.set_result(7)
    for waiter in waiters:
        waiter.join()

    assert got == [7, 7, 7, 7]
    assert answer.done()
    assert answer.exception() is None


def test_an_error_is_raised_to_every_asker() -> None:
    answer: PendingResult[int] = PendingResult()
    error = ValueError("no")
    answer.set_exception(error)

    for _ in range(2):
        with pytest.raises(ValueError, match="no") as caught:
            answer.result()
        assert caught.value is error
    assert answer.exception() is error


def test_an_outcome_is_told_once() -> None:
    answer: PendingResult[int] = PendingResult()
    answer.set_result(1)

    with pytest.raises(AssertionError):
        answer.set_result(2)
