"""The retention of a bucket, how far its base may move: what is older than the table keeps, or more than it keeps."""

from __future__ import annotations

import numpy as np

from penstock.log.data_file import DataFile
from penstock.model.table.properties import TableProperties
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.span import Run, Span

GARBAGE_PERCENT_MIN = 10
"""Below this share of rows to drop, rewriting costs more than it frees."""


def retention_target(tablet: Tablet, options: TableProperties, now_ms: int) -> int:
    """Return the offset that the base may move to, by age or by size, whichever is further."""
    base = tablet.pins.base
    return max(base, _by_age(tablet, options.log_retention_ms, now_ms), _by_size(tablet, options))


def is_worth(tablet: Tablet, target: int) -> bool:
    """Tell whether enough rows would go to rewrite files for it."""
    if not tablet.schema.keyed:
        return any(span.end <= target for span in tablet.state.sealed)
    rows = dropped = 0
    for run in (run for span in tablet.state.sealed for run in span.runs):
        rows += run.rows.rows
        if run.ends.array is not None:
            dropped += int(np.count_nonzero(run.ends.array[: run.rows.rows] < target))
    return dropped * 100 > rows * GARBAGE_PERCENT_MIN


def _by_age(tablet: Tablet, retention_ms: int | None, now_ms: int) -> int:
    if retention_ms is None:
        return 0
    view = tablet.view
    oldest_kept = now_ms - retention_ms
    for span in view.spans:
        if not span.runs or span.end <= view.base:
            continue
        first = span.runs[0].rows.directory.first_offset_at(oldest_kept)
        if first is not None:
            return min(first, view.visible)
    return view.visible


def _by_size(tablet: Tablet, options: TableProperties) -> int:
    """Return the end of the oldest spans that have to lose their history for the rest to fit."""
    spans = tablet.state.sealed
    sizes = [_bytes(span) for span in spans]
    history = [sum(_history_bytes(run, keyed=tablet.schema.keyed) for run in span.runs) for span in spans]
    limit = options.log_bytes_max(sum(sizes) - sum(history) if tablet.schema.keyed else 0)
    excess = sum(sizes) - limit if limit is not None else 0
    target = 0
    if excess > 0:
        # A quarter more than needed goes at once, so that the next step is a while away.
        excess += (limit or 0) // 4
        for span, size in zip(spans, history, strict=True):
            if excess <= 0:
                break
            excess -= size
            target = span.end
    return target


def _bytes(span: Span) -> int:
    return sum(file_bytes(run) for run in span.runs)


def file_bytes(run: Run) -> int:
    """Return the size of a sealed run's file."""
    return run.rows.info.size_bytes if isinstance(run.rows, DataFile) else 0


def _history_bytes(run: Run, *, keyed: bool) -> int:
    rows = run.rows.rows
    return file_bytes(run) if not keyed or rows == 0 else file_bytes(run) * run.ends.ended // rows
