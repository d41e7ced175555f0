"""A measured rate beside the bound or peer that was measured in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


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
    """The median of repeated runs."""

    seconds: float
    spread: float

    def rate(self, count: int) -> float:
        """Return how many per second."""
        return count / self.seconds


def timed(work: Callable[[], object], repeats: int = 3) -> Timing:
    """Run `work` several times; return the median and the spread."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    return Timing(median, 100 * (max(seconds) - median) / median)


def markdown(measurements: list[Measurement]) -> str:
    """Return the table for people."""
    lines = [
        "| job | ours | beside | its rate | ours / its | spread |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for m in measurements:
        lines.append(
            f"| {m.job} | {m.ours:,.0f} {m.unit} | {m.bound_name} | {m.bound:,.0f} | {m.ratio:.2f}x | {m.spread:.0f}% |"
        )
    return "\n".join(lines)
