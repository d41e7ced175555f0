from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.runtime.metrics import Metrics
from penstock.runtime.prometheus_text import prometheus_text


def test_snapshot_has_every_number_by_name_and_labels() -> None:
    metrics = Metrics()
    metrics.counter("penstock_rows_written", table="t").inc(5)
    metrics.counter("penstock_rows_written", table="u").inc()
    metrics.gauge("penstock_scanner_open").set(3)
    metrics.gauge("penstock_scanner_open").inc(-1)
    metrics.histogram("penstock_sync_ms", bounds=(1, 10)).observe(4)

    assert metrics.snapshot() == {
        "penstock_rows_written{table=t}": 5,
        "penstock_rows_written{table=u}": 1,
        "penstock_scanner_open": 2,
        "penstock_sync_ms_count": 1,
        "penstock_sync_ms_sum": 4,
    }


def test_same_name_and_labels_give_the_same_metric() -> None:
    metrics = Metrics()

    assert metrics.counter("penstock_a", x="1", y="2") is metrics.counter("penstock_a", y="2", x="1")
    assert metrics.counter("penstock_a", x="1", y="2") is not metrics.counter("penstock_a", x="1", y="3")


def test_concurrent_increments_are_all_counted() -> None:
    metrics = Metrics()
    counter, histogram = metrics.counter("penstock_a"), metrics.histogram("penstock_b")

    def work(_: int) -> None:
        for _ in range(5_000):
            counter.inc()
            histogram.observe(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))

    assert metrics.snapshot() == {"penstock_a": 20_000, "penstock_b_count": 20_000, "penstock_b_sum": 20_000}


def test_a_name_of_another_kind_or_with_other_labels_is_a_bug() -> None:
    metrics = Metrics()
    metrics.counter("penstock_a", table="t")

    for act in (
        lambda: metrics.gauge("penstock_a", table="t"),
        lambda: metrics.gauge("penstock_a", table="u"),
        lambda: metrics.counter("penstock_a"),
        lambda: metrics.counter("penstock_A"),
        lambda: metrics.counter("rows"),
    ):
        with pytest.raises(AssertionError):
            act()


def test_prometheus_text_has_counters_gauges_and_cumulative_buckets() -> None:
    metrics = Metrics()
    metrics.counter("penstock_rows_written", table='a"b').inc(5)
    metrics.gauge("penstock_scanner_open").set(2)
    histogram = metrics.histogram("penstock_sync_ms", bounds=(1, 10))
    for value in (0.5, 1, 4, 400):
        histogram.observe(value)

    lines = prometheus_text(metrics).splitlines()

    assert "# TYPE penstock_rows_written_total counter" in lines
    assert 'penstock_rows_written_total{table="a\\"b"} 5.0' in lines
    assert "penstock_scanner_open 2.0" in lines
    assert 'penstock_sync_ms_bucket{le="1"} 2.0' in lines
    assert 'penstock_sync_ms_bucket{le="10"} 3.0' in lines
    assert 'penstock_sync_ms_bucket{le="+Inf"} 4.0' in lines
    assert "penstock_sync_ms_sum 405.5" in lines


def test_counting_does_not_import_the_exporter() -> None:
    script = "import sys, penstock.runtime.metrics; sys.exit('prometheus_client' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
