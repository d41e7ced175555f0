"""What was measured: a figure of one peer in one job, or our rate beside a raw bound's."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

SECONDS_MAX = 10.0
"""A repeat is left out when those before it took this long together: slow peers are measured less often."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one peer reached in one job. Of most, more is better; of sizes and times, less."""

    job: str
    unit: str
    value: float
    spread: float = 0.0
    repeats: int = 1
    note: str = ""
    less_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A score and whose it is; `section` names the peers that it may be compared with."""

    section: str
    peer: str
    bound: bool
    score: Score


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a plot: what a row cost as something grew."""

    plot: str
    line: str
    x: int
    microseconds: float
    share: float = 1.0
    """What to multiply the cost with to get what stays level if the work is linear: a call's cost, a cell's."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What we did per second, and what the bound did in the same run.

    `spread` is the distance of the slowest repeat from the median, in percent of the median.
    """

    job: str
    unit: str
    ours: float
    bound_name: str
    bound: float
    spread: float = 0.0

    @property
    def ratio(self) -> float:
        """Return our rate as a multiple of the bound's."""
        return self.ours / self.bound if self.bound else float("nan")


@dataclass(frozen=True, slots=True)
class Timing:
    """The median of repeated runs, and how far the slowest, or one in twenty, is from it, in percent."""

    seconds: float
    spread: float
    repeats: int = 1

    def rate(self, count: int) -> float:
        """Return how many per second."""
        return count / self.seconds

    def score(self, job: str, count: int, unit: str = "rows/s", note: str = "") -> Score:
        """Return the rate as a score."""
        return Score(job, unit, self.rate(count), self.spread, self.repeats, note)


def timing(seconds: list[float]) -> Timing:
    """Return the timing of runs that took so long.

    Of very many runs one is always an accident: the spread is that of the slowest of twenty.
    """
    median = statistics.median(seconds)
    slow = sorted(seconds)[math.ceil(0.95 * len(seconds)) - 1]
    return Timing(median, 100 * (slow - median) / median, len(seconds))


def timed(
    work: Callable[[], object], repeats: int = 3, *, before: Callable[[], object] | None = None, warm: int = 0
) -> Timing:
    """Run `work` several times, `before` each outside of the clock; return the median and the spread.

    The first `warm` runs are not counted, unless they take so long that warmth is no matter. Repeats are left out when
    those before them took too long together.
    """
    seconds: list[float] = []
    for number in range(warm + repeats):
        if before is not None:
            before()
        start = time.perf_counter()
        work()
        took = time.perf_counter() - start
        if number >= warm or took > SECONDS_MAX / 2:
            seconds.append(took)
        if sum(seconds) > SECONDS_MAX:
            break
    return timing(seconds)
