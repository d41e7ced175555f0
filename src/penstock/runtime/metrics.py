"""Numbers about what the process does: counters, gauges, histograms.

A metric is looked up once, where its owner is made, and then costs one lock and one addition per use. Nothing here
knows of an exporter; `prometheus_text` reads the families.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TypeVar

Labels = tuple[tuple[str, str], ...]

MILLISECONDS: tuple[float, ...] = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)

_NAME = re.compile(r"penstock_[a-z0-9_]+")


class Counter:
    """A number that only grows."""

    __slots__ = ("_lock", "value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value: float = 0

    def inc(self, amount: float = 1) -> None:
        """Add to the counter."""
        assert amount >= 0, amount
        with self._lock:
            self.value += amount


class Gauge:
    """A number that goes up and down."""

    __slots__ = ("_lock", "value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value: float = 0

    def set(self, value: float) -> None:
        """Set the gauge."""
        with self._lock:
            self.value = value

    def inc(self, amount: float = 1) -> None:
        """Add to the gauge; a negative amount takes away."""
        with self._lock:
            self.value += amount


class Histogram:
    """How often a value fell below each bound."""

    __slots__ = ("_counts", "_lock", "_sum", "bounds")

    def __init__(self, bounds: Sequence[float] = MILLISECONDS) -> None:
        assert list(bounds) == sorted(set(bounds)), "bounds ascend"
        self._lock = threading.Lock()
        self.bounds = tuple(bounds)
        self._counts = [0] * (len(self.bounds) + 1)
        self._sum: float = 0

    def observe(self, value: float) -> None:
        """Count a value."""
        index = bisect_left(self.bounds, value)
        with self._lock:
            self._counts[index] += 1
            self._sum += value

    def read(self) -> tuple[list[int], float]:
        """Return the count per bound (values at or below it, above the one before; then the rest) and the sum."""
        with self._lock:
            return list(self._counts), self._sum


Metric = Counter | Gauge | Histogram
M = TypeVar("M", Counter, Gauge, Histogram)


class Metrics:
    """All metrics of a process, by name and labels. Thread-safe: the map has a lock, each metric its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._families: dict[str, dict[Labels, Metric]] = {}

    def counter(self, name: str, **labels: str) -> Counter:
        """Return the counter of that name and these labels; the same object each time."""
        return self._metric(name, labels, Counter())

    def gauge(self, name: str, **labels: str) -> Gauge:
        """Return the gauge of that name and these labels."""
        return self._metric(name, labels, Gauge())

    def histogram(self, name: str, *, bounds: Sequence[float] = MILLISECONDS, **labels: str) -> Histogram:
        """Return the histogram of that name and these labels; the bounds count when it is first made."""
        return self._metric(name, labels, Histogram(bounds))

    def set_gauges(self, name: str, label: str, values: Mapping[str, float]) -> None:
        """Set the whole family of a gauge, one series for each value of a label: series that are not named go."""
        assert _NAME.fullmatch(name), name
        family: dict[Labels, Metric] = {}
        for key, value in values.items():
            gauge = Gauge()
            gauge.value = value
            family[((label, key),)] = gauge
        with self._lock:
            if family:
                self._families[name] = family
            else:
                self._families.pop(name, None)

    def families(self) -> dict[str, dict[Labels, Metric]]:
        """Return a copy of the tables of metrics, by name and then labels."""
        with self._lock:
            return {name: dict(family) for name, family in sorted(self._families.items())}

    def snapshot(self) -> dict[str, float]:
        """Return every number now: `name{label=value}`; of a histogram its count and sum."""
        numbers: dict[str, float] = {}
        for name, family in self.families().items():
            for labels, metric in sorted(family.items()):
                suffix = "{" + ",".join(f"{label}={value}" for label, value in labels) + "}" if labels else ""
                if isinstance(metric, Histogram):
                    counts, total = metric.read()
                    numbers[f"{name}_count{suffix}"] = sum(counts)
                    numbers[f"{name}_sum{suffix}"] = total
                else:
                    numbers[name + suffix] = metric.value
        return numbers

    def _metric(self, name: str, labels: dict[str, str], fresh: M) -> M:
        assert _NAME.fullmatch(name), name
        key = tuple(sorted(labels.items()))
        with self._lock:
            family = self._families.setdefault(name, {})
            metric = family.setdefault(key, fresh)
            first = next(iter(family))
        assert isinstance(metric, type(fresh)), f"{name} is of another kind"
        assert isinstance(family[first], type(fresh)), f"{name} is of another kind"
        assert _label_names(first) == _label_names(key), f"{name} has other labels"
        return metric


def _label_names(labels: Labels) -> list[str]:
    return [label for label, _ in labels]
