"""Metrics in the text format that Prometheus scrapes. A module of its own, so that only who exports imports it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family

from penstock.runtime.metrics import Counter, Gauge, Histogram, Labels, Metric, Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Collector:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Family]:
        for name, series in self._metrics.families().items():
            yield _family(name, series)


def prometheus_text(metrics: Metrics) -> str:
    """Return all metrics as Prometheus text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(metrics))
    return generate_latest(registry).decode()


def _family(name: str, series: dict[Labels, Metric]) -> Family:
    names = [label for label, _ in next(iter(series))]
    title = name.removeprefix("penstock_").replace("_", " ")
    first = next(iter(series.values()))
    if isinstance(first, Histogram):
        histograms = HistogramMetricFamily(name, title, labels=names)
        for labels, metric in sorted(series.items(), key=lambda item: item[0]):
            assert isinstance(metric, Histogram)
            counts, total = metric.read()
            histograms.add_metric([value for _, value in labels], list(_cumulative(metric.bounds, counts)), total)
        return histograms
    numbers = (CounterMetricFamily if isinstance(first, Counter) else GaugeMetricFamily)(name, title, labels=names)
    for labels, metric in sorted(series.items(), key=lambda item: item[0]):
        assert isinstance(metric, Counter | Gauge)
        numbers.add_metric([value for _, value in labels], metric.value)
    return numbers


def _cumulative(bounds: tuple[float, ...], counts: list[int]) -> Iterator[tuple[str, float]]:
    below = 0
    for bound, count in zip([*map(str, bounds), "+Inf"], counts, strict=True):
        below += count
        yield bound, below
