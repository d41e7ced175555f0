from __future__ import annotations

from io import StringIO
from typing import Any

import pytest

from penstock.client.link.progress import Meter, Progress, ProgressLine, read_progress
from penstock.errors import InvalidError


class Steps:
    """A clock that goes on by what it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_what_ends_soon_is_not_told_of() -> None:
    told: list[Progress] = []
    clock = Steps()
    meter = Meter(told.append, "scan of", "t", monotonic=clock)

    meter.add(10)
    clock.now = 0.9
    meter.add(10)
    meter.end(whole=True)

    assert told == []


def test_what_lasts_is_told_of_now_and_then_and_at_its_end() -> None:
    told: list[Progress] = []
    clock = Steps()
    meter = Meter(told.append, "scan of", "t", monotonic=clock)

    for clock.now in (0.5, 1.0, 1.1, 1.3):
        meter.add(10, lambda: 0.5)
    meter.end(whole=True)
    meter.end(whole=True)

    assert [(each.rows, each.fraction, each.ended) for each in told] == [
        (20, 0.5, False),
        (40, 0.5, False),
        (40, 1.0, True),
    ]


def test_line_on_a_terminal_is_written_over() -> None:
    stream = Terminal()
    show = ProgressLine(stream)

    show(Progress("scan of", "t", 1_000, 0.25, 2.0, ended=False))
    show(Progress("scan of", "t", 4_000, 1.0, 4.0, ended=True))

    first, second = stream.getvalue().split("\r")[1:]
    assert "scan of t: 1,000 rows, 500 rows/s, 2 s [######" in first
    assert first.endswith("25%")
    assert second.endswith("100%\n")


def test_lines_elsewhere_are_few() -> None:
    stream = StringIO()
    show = ProgressLine(stream)

    for rows in range(100):
        show(Progress("write to", "t", rows, None, 2.0, ended=False))
    show(Progress("write to", "t", 100, None, 4.0, ended=True))

    assert len(stream.getvalue().splitlines()) == 2


@pytest.mark.parametrize("progress", [1, "yes", None])
def test_what_is_no_flag_and_no_function_is_refused(progress: Any) -> None:
    with pytest.raises(InvalidError, match="function"):
        read_progress(progress)
