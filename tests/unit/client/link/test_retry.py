from __future__ import annotations

import logging

import pytest
from tests.unit.client.conftest import ManualTime

from penstock.client.link.retry import Retry
from penstock.errors import (
    BucketFailedError,
    DiskFullError,
    InvalidError,
    NotLeaderError,
    PenstockError,
    TimedOutError,
    TooManyScannersError,
    UnavailableError,
    UnsupportedError,
)


class Flaky:
    def __init__(self, *errors: PenstockError) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.calls


def test_a_call_that_succeeds_is_made_once(manual_time: ManualTime) -> None:
    assert manual_time.retry().run(Flaky()) == 1
    assert manual_time.pauses == []


def test_retriable_errors_are_retried_with_doubling_pauses(manual_time: ManualTime) -> None:
    call = Flaky(UnavailableError("x"), NotLeaderError("x"), UnavailableError("x"))

    assert manual_time.retry(pause_ms_min=10, pause_ms_max=30).run(call) == 4
    assert manual_time.pauses == [0.01, 0.02, 0.03]


@pytest.mark.parametrize("error", [InvalidError("x"), DiskFullError("x"), BucketFailedError("x")])
def test_errors_that_waiting_does_not_mend_are_raised_at_once(manual_time: ManualTime, error: PenstockError) -> None:
    call = Flaky(error)

    with pytest.raises(type(error)):
        manual_time.retry().run(call)
    assert call.calls == 1


def test_the_last_error_is_raised_when_the_deadline_would_pass(manual_time: ManualTime) -> None:
    call = Flaky(*(UnavailableError("x", attempt=n) for n in range(10_000)))

    with pytest.raises(UnavailableError) as caught:
        manual_time.retry(deadline_ms=1_000).run(call)
    assert caught.value.facts["attempt"] == call.calls - 1
    assert 0.5 < manual_time.now <= 1.0


def test_only_the_errors_asked_for_are_retried(manual_time: ManualTime) -> None:
    call = Flaky(UnavailableError("x"))

    with pytest.raises(UnavailableError):
        manual_time.retry().run(call, when=lambda error: isinstance(error, TooManyScannersError))


def test_jitter_shortens_a_pause_by_up_to_a_half(manual_time: ManualTime) -> None:
    retry = Retry(monotonic=manual_time.monotonic, pause=manual_time.pause, jitter=lambda: 1.0, pause_ms_min=10)

    retry.run(Flaky(UnavailableError("x")))

    assert manual_time.pauses == [0.005]


def test_pauses_out_of_order_are_refused() -> None:
    with pytest.raises(InvalidError, match="between its bounds least=5 most=1"):
        Retry(pause_ms_min=5, pause_ms_max=1)


def test_who_waits_is_told_what_for_within_two_seconds_of_the_first_failure(manual_time: ManualTime) -> None:
    told: list[float] = []

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(manual_time.now)

    handler = Noting()
    log = logging.getLogger("penstock.client.link.retry")
    log.addHandler(handler)

    class Slow(Flaky):
        def __call__(self) -> int:
            manual_time.now += 1.0
            return super().__call__()

    try:
        manual_time.retry().run(Slow(*(UnavailableError("no server answers") for _ in range(9))))
        manual_time.now = 0.0
        manual_time.retry().run(Flaky(*(UnavailableError("no server answers") for _ in range(20))))
    finally:
        log.removeHandler(handler)
    slow, slow_again, quick, quick_again = told
    assert 1.0 <= slow <= 3.0
    assert 0.3 <= quick <= 2.0
    # And from then on every ten seconds.
    assert 9.0 <= slow_again - slow <= 11.0
    assert 9.0 <= quick_again - quick <= 11.0


def test_time_for_trying_again_counts_from_the_first_failure(manual_time: ManualTime) -> None:
    class Slow(Flaky):
        def __call__(self) -> int:
            manual_time.now += 60.0
            return super().__call__()

    assert manual_time.retry().run(Slow(TimedOutError("no answer in time"))) == 2
    with pytest.raises(TimedOutError):
        manual_time.retry().run(Slow(TimedOutError("no answer in time"), TimedOutError("no answer in time")))


def test_who_is_in_the_middle_of_reading_waits_for_minutes(manual_time: ManualTime) -> None:
    assert manual_time.retry().reading().deadline_ms == 600_000
    assert manual_time.retry(deadline_ms=0).reading().deadline_ms == 0


def test_moment_of_failure_is_not_worth_a_word(manual_time: ManualTime, caplog: pytest.LogCaptureFixture) -> None:
    manual_time.retry().run(Flaky(*(UnavailableError("no server answers") for _ in range(5))))

    assert caplog.records == []


def test_server_that_is_not_reached_is_tried_again_by_every_call(manual_time: ManualTime) -> None:
    unreached = UnsupportedError("the server does not speak tls")
    unreached.reached = False

    assert manual_time.retry().run(Flaky(unreached)) == 2


def test_who_waits_is_told_once_what_for(manual_time: ManualTime, caplog: pytest.LogCaptureFixture) -> None:
    call = Flaky(*(UnavailableError("no server answers") for _ in range(9)))

    manual_time.retry(pause_ms_min=1_000, pause_ms_max=1_000).run(call)

    assert [record.getMessage() for record in caplog.records] == ["trying again for up to 30 s: no server answers"]
