"""The first rows in an order: found by the columns that order them, then read whole.

What is kept meanwhile is the order's columns of somewhat more rows than are asked for. Once there are enough, a block
is first compared with the last of them, so that of most blocks nothing is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidScanRequestError, LimitError
from penstock.model.place.system_columns import OFFSET_COLUMN
from penstock.model.schema.projection import Projection
from penstock.model.schema.row_order import RowOrder
from penstock.model.schema.schema import Schema
from penstock.tablet.view.span import RowBlock
from penstock.tablet.view.view import TabletView

ROWS_MAX: Final = 100_000
BYTES_MAX: Final = 64 << 20
"""How large the rows of one answer may be."""
_GATHERED_AT_ONCE: Final = 4_096
_SLACK_ROWS: Final = 65_536


class TopRows:
    """Collects the first rows of several buckets. Not thread-safe."""

    def __init__(self, order: RowOrder, schema: Schema, projection: Projection, limit: int, *, offsets: bool) -> None:
        """Look for the first `limit` rows.

        Raises:
            InvalidScanRequestError: the limit is negative.
            LimitError: there may not be so many.
        """
        if limit < 0:
            raise InvalidScanRequestError("a limit is a number of rows", limit=limit)
        if limit > ROWS_MAX:
            raise LimitError(
                "an ordered scan gives fewer rows; ask for less, or sort those of a scan", limit=limit, max=ROWS_MAX
            )
        self._order = order
        self._projection = projection
        self._limit = limit
        self._offsets = offsets
        ordering = [schema.column(name) for name in order.names]
        self.ordered = pa.schema([column.stored for column in ordering])
        self._kept = pa.table(
            [*(pa.array([], column.type) for column in ordering), pa.array([], pa.int32()), pa.array([], pa.int64())],
            names=[*(str(number) for number in range(len(ordering))), "place", "offset"],
        )
        self._is_cut = False

    def add(self, place: int, block: RowBlock) -> None:
        """Take in rows of the bucket of a place, read with the columns `ordered` first; places and offsets ascend."""
        columns, offsets = block.batch.columns[: len(self.ordered)], block.offsets
        if self._limit == 0 or not len(offsets):
            return
        if self._is_cut:
            # Later rows that are equal come after those that are kept, but the first column alone does not tell.
            mask = self._order.may_come_before(columns[0], self._kept.column(0)[self._limit - 1])
            columns = [column.filter(mask) for column in columns]
            offsets = offsets[mask.to_numpy(zero_copy_only=False)]
            if not len(offsets):
                return
        places = pa.array(np.full(len(offsets), place, np.int32))
        found = pa.table([*columns, places, pa.array(offsets)], names=self._kept.column_names)
        self._kept = pa.concat_tables([self._kept, found])
        if self._kept.num_rows > self._limit + _SLACK_ROWS or not self._is_cut:
            self._cut()

    def rows(self, views: Mapping[int, TabletView]) -> pa.RecordBatch:
        """Return the first rows, whole, from the views of their buckets.

        Raises:
            LimitError: they are larger than an answer may be.
        """
        self._cut()
        ordered = [column.combine_chunks() for column in self._kept.columns]
        ordered = [column if isinstance(column, pa.Array) else column.chunk(0) for column in ordered]
        places, offsets = ordered[-2].to_numpy(), ordered[-1].to_numpy()
        pieces = [pa.RecordBatch.from_pylist([], schema=self._projection.stored)]
        at, size = [np.empty(0, np.int64)], 0
        for place in np.unique(places).tolist():
            rows = np.flatnonzero(places == place)
            for first in range(0, len(rows), _GATHERED_AT_ONCE):
                some = rows[first : first + _GATHERED_AT_ONCE]
                pieces.append(views[place].gather(offsets[some], self._projection.stored))
                at.append(some)
                size += pieces[-1].nbytes
                if size > BYTES_MAX:
                    raise LimitError(
                        "the first rows are too large for one answer; name fewer columns, or a lower limit",
                        limit=self._limit,
                        bytes_max=BYTES_MAX,
                    )
        back = np.argsort(np.concatenate(at))
        shown = self._projection.show(pa.concat_batches(pieces).take(pa.array(back)))
        columns, fields = list(shown.columns), list(shown.schema)
        if self._offsets:
            columns, fields = [*columns, ordered[-1]], [*fields, OFFSET_COLUMN]
        for number, column in enumerate(ordered[:-2]):
            columns.append(column)
            fields.append(pa.field(f"_order{number}", column.type))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _cut(self) -> None:
        columns = [column.combine_chunks() for column in self._kept.columns[: len(self.ordered)]]
        self._kept = self._kept.take(self._order.first(columns, self._limit)).combine_chunks()
        self._is_cut = self._kept.num_rows == self._limit > 0
