"""Spans: the log cut into offset ranges, each held by one or more runs of rows.

A fresh span has one dense run. A rewritten span may keep its live rows and its history in separate
runs, so that a scan of the present opens only the live one; together the runs of a span hold every
retained row of its range exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.log.row_run import RowRun
from penstock.model.schema.stored_field import absent_values, fitted_values, fitting_names
from penstock.tablet.view.ends import Ends

Offsets = npt.NDArray[np.int64]


class RowBlock(NamedTuple):
    """Rows with their offsets, ascending."""

    offsets: Offsets
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Rows and their ends."""

    rows: RowRun
    ends: Ends

    @property
    def live_rows(self) -> int:
        """Return how many rows of the run are live."""
        return self.rows.rows - self.ends.ended

    def none_visible_at(self, x: int) -> bool:
        """Tell whether all rows of the run had ended before X: then a scan need not open it."""
        if self.rows.start >= x:
            return True
        array = self.ends.array
        if array is None or self.ends.ended < self.rows.rows:
            return False
        return int(array[: self.rows.rows].max(initial=-1)) < x

    def count_visible(self, x: int) -> int:
        """Return how many rows are visible at X, by their ends alone."""
        run, array = self.rows, self.ends.array
        begun = run.rows
        if run.end > x:
            begun = sum(high - low for _, low, high, _ in self._blocks(0, x))
        return begun if array is None else int(np.count_nonzero(array[:begun] >= x))

    def visible(self, x: int, start: int, projection: pa.Schema) -> Iterator[RowBlock]:
        """Yield the rows visible at X with offsets of `start` or more, a block at a time."""
        for block, low, high, covered in self._blocks(start, x):
            offsets, ends, mask = covered, self.ends.array, None
            if ends is not None:
                first = int(self.rows.block_starts[block])
                mask = ends[first + low : first + high] >= x
                kept = int(np.count_nonzero(mask))
                if kept == 0:
                    continue
                if kept == len(mask):
                    mask = None
            batch = self._read(block, low, high, projection)
            if mask is not None:
                batch, offsets = batch.filter(pa.array(mask)), offsets[mask]
            yield RowBlock(offsets, batch)

    def between(self, start: int, end: int, projection: pa.Schema) -> Iterator[RowBlock]:
        """Yield the rows with offsets in [start, end), whether they ended or not."""
        for block, low, high, offsets in self._blocks(start, end):
            yield RowBlock(offsets, self._read(block, low, high, projection))

    def chosen(self, rows: npt.NDArray[np.int64], projection: pa.Schema) -> Iterator[RowBlock]:
        """Yield these rows, ascending, a block at a time."""
        bounds = np.searchsorted(rows, self.rows.block_starts)
        for block in range(self.rows.block_count):
            inside = rows[bounds[block] : bounds[block + 1]] - self.rows.block_starts[block]
            size = self.rows.block_rows(block)
            if len(inside) == 0:
                continue
            batch, offsets = self._read(block, 0, size, projection), self.rows.offsets_of_block(block)
            if len(inside) < size:
                batch, offsets = batch.take(pa.array(inside)), offsets[inside]
            yield RowBlock(offsets, batch)

    def take(self, rows: npt.NDArray[np.int64], projection: pa.Schema) -> pa.RecordBatch:
        """Return these rows, in this order."""
        fitting = fitting_names(self.rows.schema, projection)
        if fitting is not None:
            return pa.RecordBatch.from_arrays(self.rows.take(rows, fitting), schema=projection)
        names = [name for name in projection.names if self.rows.has_column(name)]
        return _assemble(dict(zip(names, self.rows.take(rows, names), strict=True)), len(rows), projection)

    def _blocks(self, start: int, end: int) -> Iterator[tuple[int, int, int, Offsets]]:
        run = self.rows
        for block in range(run.block_count):
            first, last = int(run.block_starts[block]), int(run.block_starts[block + 1])
            if run.dense:
                low = max(0, start - run.start - first)
                high = min(last - first, end - run.start - first)
                if low < high:
                    base = run.start + first
                    yield block, low, high, np.arange(base + low, base + high, dtype=np.int64)
            else:
                offsets = run.offsets_of_block(block)
                low, high = (int(i) for i in np.searchsorted(offsets, (start, end)))
                if low < high:
                    yield block, low, high, offsets[low:high]

    def _read(self, block: int, low: int, high: int, projection: pa.Schema) -> pa.RecordBatch:
        fitting = fitting_names(self.rows.schema, projection)
        if fitting is not None:
            whole = pa.RecordBatch.from_arrays(self.rows.read_block(block, fitting), schema=projection)
            return whole.slice(low, high - low)
        names = [field.name for field in projection if self.rows.has_column(field.name)]
        arrays = self.rows.read_block(block, names)
        found = {name: array.slice(low, high - low) for name, array in zip(names, arrays, strict=True)}
        return _assemble(found, high - low, projection)


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The offsets [start, end), in one or more runs."""

    start: int
    end: int
    runs: tuple[Run, ...]

    def visible(self, x: int, start: int, projection: pa.Schema) -> Iterator[RowBlock]:
        """Yield the rows visible at X from offset `start` on, in offset order."""
        runs = [run for run in self.runs if not run.none_visible_at(x)]
        return in_order([run.visible(x, start, projection) for run in runs])

    def between(self, start: int, end: int, projection: pa.Schema) -> Iterator[RowBlock]:
        """Yield all rows with offsets in [start, end), in offset order."""
        return in_order([run.between(start, end, projection) for run in self.runs])


def _assemble(found: dict[str, pa.Array], rows: int, projection: pa.Schema) -> pa.RecordBatch:
    """Return a batch of the projection: in its types, and with its defaults where these rows lack a column."""
    arrays = [fitted_values(found[f.name], f) if f.name in found else absent_values(f, rows) for f in projection]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))
    return pa.RecordBatch.from_arrays(arrays, schema=projection)


def in_order(streams: list[Iterator[RowBlock]]) -> Iterator[RowBlock]:
    """Merge streams of blocks, each ascending, into one ascending stream."""
    if len(streams) == 1:
        yield from streams[0]
        return
    heads = [(block, stream) for stream in streams if (block := next(stream, None)) is not None]
    while heads:
        bound = min(int(block.offsets[-1]) for block, _ in heads)
        pieces: list[RowBlock] = []
        rest: list[tuple[RowBlock, Iterator[RowBlock]]] = []
        for block, stream in heads:
            cut = int(np.searchsorted(block.offsets, bound, side="right"))
            if cut:
                pieces.append(RowBlock(block.offsets[:cut], block.batch.slice(0, cut)))
            if cut < len(block.offsets):
                after: RowBlock | None = RowBlock(block.offsets[cut:], block.batch.slice(cut))
            else:
                after = next(stream, None)
            if after is not None:
                rest.append((after, stream))
        heads = rest
        yield _interleave(pieces)


def _interleave(pieces: list[RowBlock]) -> RowBlock:
    if len(pieces) == 1:
        return pieces[0]
    offsets = np.concatenate([piece.offsets for piece in pieces])
    order = np.argsort(offsets, kind="stable")
    batch = pa.concat_batches([piece.batch for piece in pieces]).take(pa.array(order))
    return RowBlock(offsets[order], batch)
