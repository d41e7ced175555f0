from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidError
from penstock.model.words.quantity import (
    QUANTITY_MAX,
    format_bytes,
    format_duration_ms,
    parse_bytes,
    parse_duration_ms,
)


@pytest.mark.parametrize(
    ("written", "duration_ms"),
    [
        ("300ms", 300),
        ("60s", 60_000),
        ("10min", 600_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
        (" 5 S ", 5_000),
        ("0ms", 0),
        (timedelta(minutes=2), 120_000),
        (timedelta(milliseconds=1), 1),
    ],
)
def test_durations_are_read_as_milliseconds(written: str | timedelta, duration_ms: int) -> None:
    assert parse_duration_ms(written) == duration_ms


@pytest.mark.parametrize("wrong", ["", "10", "s", "-1s", "1.5h", "1 year", "1e3s", "\u0661s", 5, None, timedelta(-1)])
def test_what_is_no_duration_is_refused_with_examples(wrong: Any) -> None:
    with pytest.raises(InvalidError, match="a duration is") as caught:
        parse_duration_ms(wrong)

    assert repr(wrong) in str(caught.value)


def test_a_timedelta_finer_than_a_millisecond_is_refused() -> None:
    with pytest.raises(InvalidError, match="whole number of milliseconds"):
        parse_duration_ms(timedelta(microseconds=1500))


@pytest.mark.parametrize(
    ("written", "size"),
    [("4MB", 4 << 20), ("512kb", 512 << 10), ("1GB", 1 << 30), ("2TiB", 2 << 40), ("17", 17), ("17B", 17), (99, 99)],
)
def test_sizes_are_read_as_bytes(written: str | int, size: int) -> None:
    assert parse_bytes(written) == size


@pytest.mark.parametrize("wrong", ["", "MB", "-4MB", "4.5MB", "4XB", -1, 1.5, True, None])
def test_what_is_no_size_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidError, match="a size is"):
        parse_bytes(wrong)


@pytest.mark.parametrize("wrong", ["999999999999999d", "999999999999999TB"])
def test_quantities_that_no_counter_holds_are_refused(wrong: str) -> None:
    with pytest.raises(InvalidError, match="too large"):
        (parse_duration_ms if wrong.endswith("d") else parse_bytes)(wrong)


@given(st.integers(0, min(10**14, QUANTITY_MAX)))
def test_what_is_written_reads_back_as_the_same_quantity(amount: int) -> None:
    assert parse_duration_ms(format_duration_ms(amount)) == amount
    assert parse_bytes(format_bytes(amount)) == amount
