"""Pages of one bucket at one snapshot: rows in offset order, cut where a page is full.

Blocks come from the view as they are stored; a page is a few slices of them. Large slices stay apart,
small ones are joined. What is left of the last block waits for the next page, so that every block is
read once. A page that is asked for again is read again: from where its first block began, so that it
is made of the same slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.engine.rows.page_size import SLACK_PARTS, BatchSize, fitting
from penstock.engine.rows.read_errors import reading
from penstock.engine.scan.plan import ScanPlan
from penstock.runtime.clock import Clock
from penstock.tablet.view.span import RowBlock
from penstock.tablet.view.view import TabletView

SEARCH_MS_MAX: Final = 200
"""How long a page looks for rows that pass the filter."""

APART_BYTES_MIN: Final = 1 << 19
"""Slices that are this large on average are not joined: copying them would cost more than to send them apart."""


class PageSpan(NamedTuple):
    """The offsets [start, end) that a page covers, and where the block of its first row begins."""

    start: int
    end: int
    read_from: int
    has_more: bool


class PageRows(NamedTuple):
    """The rows of a page in one or more batches; `inner_ends` are the offsets after each but the last."""

    batches: tuple[pa.RecordBatch, ...]
    inner_ends: tuple[int, ...] = ()

    @property
    def row_count(self) -> int:
        """Return the number of rows."""
        return sum(batch.num_rows for batch in self.batches)


class _Block(NamedTuple):
    """Rows that pass, of the stored block that covers [read_from, end)."""

    read_from: int
    end: int
    offsets: npt.NDArray[np.int64]
    batch: pa.RecordBatch


class PageReader:
    """Reads the pages of a scan one after the other. Not thread-safe."""

    def __init__(
        self,
        view: TabletView,
        plan: ScanPlan,
        start: int,
        clock: Clock,
        *,
        apart_bytes_min: int = APART_BYTES_MIN,
    ) -> None:
        """Read a view from an offset on; slices of `apart_bytes_min` on average stay apart."""
        self._view = view
        self._plan = plan
        self._clock = clock
        self._apart_bytes_min = apart_bytes_min
        self._end = start
        self._blocks = self._read(start)
        self._left: _Block | None = None

    def next(self, limit: int | None) -> tuple[PageSpan, PageRows]:
        """Return the next page, of at most `limit` rows, and what it covers.

        Raises:
            UnavailableError: the disk refused; the page is still the next one.
            CorruptionError: stored bytes are damaged.
        """
        start = self._end
        try:
            with reading(self._plan.bucket):
                return self._next(start, limit)
        except BaseException:
            self._begin_at(start)
            raise

    def again(self, span: PageSpan) -> PageRows:
        """Return a page that was read before.

        Raises:
            UnavailableError: the disk refused.
            CorruptionError: stored bytes are damaged.
        """
        pieces, ends = [], []
        with reading(self._plan.bucket):
            for block in self._read(span.read_from):
                low, high = (int(place) for place in np.searchsorted(block.offsets, (span.start, span.end)))
                if low < high:
                    pieces.append(block.batch.slice(low, high - low))
                    ends.append(int(block.offsets[high - 1]) + 1)
                if block.end >= span.end:
                    break
        return self._joined(pieces, ends)

    def rest(self, span: PageSpan | None = None) -> None:
        """Hold no rows until the next page is asked for, which is that of the span again if one is given."""
        if span is not None:
            self._begin_at(span.start)
        elif self._left is not None:
            self._begin_at(self._end)

    def _begin_at(self, offset: int) -> None:
        self._end = offset
        self._blocks = self._read(offset)
        self._left = None

    def _next(self, start: int, limit: int | None) -> tuple[PageSpan, PageRows]:
        room, rows, pieces, ends = self._plan.page_bytes, 0, [], []
        read_from, has_more = self._end, False
        deadline_ms = self._clock.monotonic_ms() + SEARCH_MS_MAX
        while limit is None or rows < limit:
            block, self._left = self._left or next(self._blocks, None), None
            if block is None:
                self._end = max(self._end, self._plan.stop)
                break
            if rows == 0:
                read_from = block.read_from
            wanted = block.batch.num_rows if limit is None else min(block.batch.num_rows, limit - rows)
            count, size = self._fitting(block.batch, wanted, room, least=int(rows == 0))
            if count:
                pieces.append(block.batch.slice(0, count))
                room, rows = room - size, rows + count
                self._end = int(block.offsets[count - 1]) + 1
                ends.append(self._end)
            if count < block.batch.num_rows:
                self._left = block._replace(offsets=block.offsets[count:], batch=block.batch.slice(count))
                has_more = rows != limit
                break
            self._end = block.end
            if not self._plan.filter.is_all and self._clock.monotonic_ms() >= deadline_ms:
                has_more = rows != limit
                break
        return PageSpan(start, self._end, read_from, has_more), self._joined(pieces, ends)

    @staticmethod
    def _fitting(batch: pa.RecordBatch, wanted: int, room: int, *, least: int) -> tuple[int, int]:
        # What all of its buffers hold is known at once: a block that is small even so need not be measured.
        held = batch.get_total_buffer_size() + batch.num_columns * batch.num_rows
        if SLACK_PARTS * held <= room:
            return wanted, held
        return fitting(BatchSize(batch), wanted, room, least=least)

    def _read(self, start: int) -> Iterator[_Block]:
        plan = self._plan
        read_from, rows_at_once = start, plan.filter.rows_at_once
        for block in self._view.scan(plan.log_offset, plan.stored, start=start):
            offsets, batch = _before(block, plan.stop)
            if not len(offsets):
                return
            # A filter of thousands of comparisons takes longer for one block than a page may take.
            for first in range(0, len(offsets), rows_at_once):
                part = offsets[first : first + rows_at_once]
                end = int(part[-1]) + 1
                yield self._block(read_from, end, part, batch.slice(first, len(part)))
                read_from = end

    def _block(self, read_from: int, end: int, offsets: npt.NDArray[np.int64], batch: pa.RecordBatch) -> _Block:
        plan = self._plan
        shown = plan.projection.show(batch)
        if not plan.filter.is_all:
            mask = plan.filter.mask_stored(batch)
            if not mask.all():
                offsets, shown = offsets[mask], shown.filter(pa.array(mask))
        if plan.offsets:
            shown = pa.RecordBatch.from_arrays([*shown.columns, pa.array(offsets)], schema=plan.shown)
        return _Block(read_from, end, offsets, shown)

    def _joined(self, pieces: list[pa.RecordBatch], ends: list[int]) -> PageRows:
        if not pieces:
            return PageRows((pa.RecordBatch.from_pylist([], schema=self._plan.shown),))
        if len(pieces) == 1:
            return PageRows((pieces[0],))
        if sum(pa.ipc.get_record_batch_size(piece) for piece in pieces) >= self._apart_bytes_min * len(pieces):
            return PageRows(tuple(pieces), tuple(ends[:-1]))
        return PageRows((pa.concat_batches(pieces),))


def _before(block: RowBlock, stop: int) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
    """Return what of a block lies below an offset."""
    if block.offsets[-1] < stop:
        return block.offsets, block.batch
    count = int(np.searchsorted(block.offsets, stop))
    return block.offsets[:count], block.batch.slice(0, count)
