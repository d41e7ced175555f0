"""The state of a table in numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.engine.table.open_table import OpenTable
from penstock.engine.upkeep.retention import file_bytes
from penstock.model.node.calls import BucketStats, TableStats
from penstock.model.place.bucket import TableBucket
from penstock.tablet.tablet import Tablet


class StatisticsOnly:
    """The figures of tables, of a node that does not write. Thread-safe: keeps nothing of its own."""

    def __init__(self, tables: Callable[[int], OpenTable]) -> None:
        self._tables = tables

    def stats(self, table_id: int) -> TableStats:
        """Return the state of a table."""
        return table_stats(self._tables(table_id), {})

    def write_stream(self) -> None:
        """Offer no way to send writes ahead."""


def table_stats(table: OpenTable, background: Mapping[str, Any]) -> TableStats:
    """Return totals and the state of each bucket."""
    tablets = sorted(table.committer.tablets.values(), key=lambda tablet: tablet.bucket)
    # One without a name is of a partition that was dropped since.
    buckets = [_bucket_stats(name, t) for t in tablets if (name := table.find_name(t.bucket)) is not None]
    return TableStats(
        rows=sum(bucket.rows for bucket in buckets),
        live_rows=sum(bucket.live_rows for bucket in buckets),
        bytes=sum(bucket.bytes for bucket in buckets),
        buckets=buckets,
        background=dict(background),
    )


def _bucket_stats(name: TableBucket, tablet: Tablet) -> BucketStats:
    view = tablet.view
    runs = [run for span in tablet.state.sealed for run in span.runs]
    return BucketStats(
        bucket=name,
        base=view.base,
        visible=view.visible,
        rows=view.rows,
        # Of a log what readers are shown: changes below the base may be there for who reads them.
        live_rows=view.live_rows if tablet.schema.keyed else view.visible - view.base,
        bytes=sum(file_bytes(run) for run in runs) + tablet.tail_bytes,
        files=len(runs),
        tail_rows=tablet.tail_rows,
        checkpoint=tablet.state.checkpoint,
        pins={str(holder): offset for holder, offset in tablet.pins.snapshot().items()},
    )
