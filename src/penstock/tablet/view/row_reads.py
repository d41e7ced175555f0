"""One row out of a view, without the work that many rows are worth."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import CorruptionError
from penstock.model.schema.stored_field import absent_values, fitted_values, fitting_names
from penstock.tablet.view.span import Run
from penstock.tablet.view.view import TabletView


def read_row(view: TabletView, offset: int, stored: pa.Schema) -> list[pa.Array]:
    """Return the stored columns of the row at an offset; they share the memory of its block.

    Raises:
        CorruptionError: the row is not in the log, so the index or the change that named it is stale.
        OSError: as the disk gave it.
    """
    place = bisect_right(view.spans, offset, key=lambda span: span.start) - 1
    for run in view.spans[place].runs if place >= 0 else ():
        row = _row_of(run, offset)
        if row >= 0:
            return _columns(run, row, stored)
    raise CorruptionError("a row that is referred to is not in the log", bucket=view.bucket, offset=offset)


def _row_of(run: Run, offset: int) -> int:
    rows = run.rows
    if rows.dense:
        return offset - rows.start if rows.start <= offset < rows.end else -1
    return int(rows.row_of(np.array([offset], np.int64))[0])


def _columns(run: Run, row: int, stored: pa.Schema) -> list[pa.Array]:
    rows = run.rows
    block = int(rows.block_starts.searchsorted(row, side="right")) - 1
    inside = row - int(rows.block_starts[block])
    fitting = fitting_names(rows.schema, stored)
    if fitting is not None:
        return [values.slice(inside, 1) for values in rows.read_block(block, fitting, use_cache=True)]
    names: Sequence[str] = [name for name in stored.names if rows.has_column(name)]
    found = dict(zip(names, rows.read_block(block, names, use_cache=True), strict=True))
    return [
        fitted_values(found[f.name].slice(inside, 1), f) if f.name in found else absent_values(f, 1) for f in stored
    ]
