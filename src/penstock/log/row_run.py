"""A run of stored rows as a reader sees it, whether they are in a file or still in memory.

Rows stand in offset order in *blocks*. A run covers the offsets [start, end); a dense one has a row
for each of them, a sparse one only those that compaction kept. Rows are numbered from 0 in the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.keys.fixed_width import array_of, is_plain, values_of
from penstock.codec.keys.key_sort import radix_order
from penstock.log.batch_directory import BatchDirectory

Int64s = npt.NDArray[np.int64]
Values: TypeAlias = pa.Array | npt.NDArray[Any]
"""A column of a block: an array, or the bare values of one that has nothing else."""

_FEW_ROWS = 256


class RowRun(Protocol):
    """A run of stored rows. Immutable and thread-safe."""

    @property
    def start(self) -> int:
        """Return the first offset that the run covers."""

    @property
    def end(self) -> int:
        """Return the offset after the last one that the run covers."""

    @property
    def rows(self) -> int:
        """Return the number of rows."""

    @property
    def dense(self) -> bool:
        """Tell whether every offset covered has a row."""

    @property
    def schema(self) -> pa.Schema:
        """Return the storage schema, without `_offset`."""

    @property
    def directory(self) -> BatchDirectory:
        """Return the facts of the batches that the rows came in."""

    @property
    def block_count(self) -> int:
        """Return the number of blocks."""

    @property
    def block_starts(self) -> Int64s:
        """Return the first row of each block, and the number of rows at the end."""

    def block_rows(self, i: int) -> int:
        """Return the number of rows in block `i`."""

    def has_column(self, name: str) -> bool:
        """Tell whether the run stores a column; it may have been added to the table later."""

    def read_block(self, i: int, columns: Sequence[str], *, use_cache: bool = False) -> list[pa.Array]:
        """Return columns of a block; `use_cache` keeps them for readers to come.

        Raises:
            CorruptionError: stored bytes are damaged; names file, column and block.
            OSError: as the disk gave it.
        """

    def offsets_of_block(self, i: int) -> Int64s:
        """Return the offset of each row of a block."""

    def row_of(self, offsets: Int64s) -> Int64s:
        """Return the row of each offset, -1 where the run has none."""

    def take(self, rows: Int64s, columns: Sequence[str]) -> list[pa.Array]:
        """Return columns of the given rows, in the given order.

        Raises:
            CorruptionError: stored bytes are damaged; names file, column and block.
            OSError: as the disk gave it.
        """


def dense_rows(offsets: Int64s, *, start: int, end: int) -> Int64s:
    """Return the row of each offset in a dense run over [start, end), -1 outside."""
    return np.where((offsets >= start) & (offsets < end), offsets - start, -1)


def gather(
    rows: Int64s,
    block_starts: Int64s,
    types: Sequence[pa.DataType],
    read: Callable[[int], Sequence[Values]],
) -> list[pa.Array]:
    """Take rows out of blocks, each of them read once, whatever the order of the rows."""
    if not len(rows):
        return [pa.array([], type=kind) for kind in types]
    order = None
    if (rows[1:] < rows[:-1]).any():
        # Rows that rise are also met in the order in which they lie in memory.
        order = radix_order([rows.view(np.uint64)]) if len(rows) > _FEW_ROWS else np.argsort(rows)
        rows = rows[order]
    bounds = rows.searchsorted(block_starts).tolist()
    pieces: list[list[Values]] = [[] for _ in types]
    for block, (first, last) in enumerate(pairwise(bounds)):
        if first == last:
            continue
        inside = rows[first:last] - block_starts[block]
        for column, values in zip(pieces, read(block), strict=True):
            plain = values if isinstance(values, np.ndarray) else plain_values(values)
            column.append(values.take(pa.array(inside)) if plain is None else plain.take(inside))
    return [_join(column, kind, order) for column, kind in zip(pieces, types, strict=True)]


def plain_values(array: pa.Array) -> npt.NDArray[Any] | None:
    """Return the values of an array that is nothing but numbers, dates or timestamps; None of another."""
    return values_of(array) if is_plain(array) else None


def _join(pieces: list[Values], kind: pa.DataType, order: Int64s | None) -> pa.Array:
    """Return the pieces one after another; with an order, their i-th row at the place order[i]."""
    if all(isinstance(piece, np.ndarray) for piece in pieces):
        values = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        if order is not None:
            joined = np.empty_like(values)
            joined[order] = values
            values = joined
        return array_of(kind, values)
    array = pa.concat_arrays([array_of(kind, piece) if isinstance(piece, np.ndarray) else piece for piece in pieces])
    if order is None:
        return array
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return array.take(pa.array(back))
