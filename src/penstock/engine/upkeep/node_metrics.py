"""Figures of a node for its metrics: each open table, the background work, memory and disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.engine.table.open_table import OpenTable
from penstock.engine.upkeep.statistics import table_stats
from penstock.errors import PenstockError
from penstock.runtime.disk import Disk
from penstock.runtime.metrics import Metrics

TABLES_MAX: Final = 1_000
"""Tables that have series of their own; each series costs the scraper, so the largest tables are kept."""
PER_TABLE: Final = (
    "table_rows",
    "table_live_rows",
    "table_bytes",
    "table_changes",
    "table_unsealed_rows",
    "table_pins",
    "table_failed_buckets",
)


class NodeMetrics:
    """Sets the gauges of a node; for one thread."""

    def __init__(
        self,
        tables: Callable[[], list[OpenTable]],
        disk: Disk,
        metrics: Metrics,
        failures: Callable[[], Mapping[str, int]],
    ) -> None:
        """Observe the tables that are open; `failures` counts how often each background task failed."""
        self._tables = tables
        self._disk = disk
        self._metrics = metrics
        self._failures = failures
        self._open = metrics.gauge("penstock_tables_open")
        self._free = metrics.gauge("penstock_disk_free_bytes")
        self._size = metrics.gauge("penstock_disk_size_bytes")

    def run(self) -> None:
        """Observe everything once."""
        figures = {}
        tables = self._tables()
        for table in tables:
            try:
                figures[table.info.path] = _figures(table)
            except PenstockError:
                continue  # dropped meanwhile
        largest = sorted(figures, key=lambda name: -figures[name]["table_bytes"])[:TABLES_MAX]
        for gauge in PER_TABLE:
            self._metrics.set_gauges(f"penstock_{gauge}", "table", {name: figures[name][gauge] for name in largest})
        self._open.set(len(tables))
        self._metrics.set_gauges("penstock_background_failures", "task", dict(self._failures()))
        space = self._disk.space()
        self._free.set(space.free)
        self._size.set(space.total)


def _figures(table: OpenTable) -> dict[str, float]:
    stats = table_stats(table, {})
    return {
        "table_rows": stats.rows,
        "table_live_rows": stats.live_rows,
        "table_bytes": stats.bytes,
        "table_changes": sum(bucket.visible for bucket in stats.buckets),
        "table_unsealed_rows": sum(bucket.tail_rows for bucket in stats.buckets),
        "table_pins": sum(len(bucket.pins) for bucket in stats.buckets),
        "table_failed_buckets": sum(not tablet.standing.takes_writes for tablet in table.committer.tablets.values()),
    }
