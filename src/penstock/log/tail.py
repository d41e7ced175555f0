"""The rows that are not in a data file yet, in memory, as few chunks.

Batches are merged geometrically: a chunk swallows its elder while it is at least half as large and
both together stay under `CHUNK_ROWS_MAX`. So a row is copied O(log n) times, a chunk that reached
the limit never again, and one-row batches do not turn scans into loops. Merging waits for the next
snapshot, which is taken once per group of commits; it never waits for more than a few batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.log.batch_directory import BatchDirectory, DirectoryBuilder
from penstock.log.row_run import Int64s, Values, dense_rows, gather, plain_values
from penstock.model.place.facts import BatchFacts

CHUNK_ROWS_MAX: Final = 65_536
_PENDING_MAX: Final = 64


class Tail:
    """The growing end of a bucket. Not thread-safe; its snapshots are."""

    def __init__(self, schema: pa.Schema, start: int) -> None:
        self._schema = schema
        self._start = start
        self._end = start
        self._chunks: list[Chunk] = []
        self._pending: list[pa.RecordBatch] = []
        self._directory = DirectoryBuilder()
        self._bytes = 0

    @property
    def schema(self) -> pa.Schema:
        """Return the storage schema."""
        return self._schema

    @property
    def start(self) -> int:
        """Return the first offset."""
        return self._start

    @property
    def end(self) -> int:
        """Return the offset that the next batch starts at."""
        return self._end

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self._end - self._start

    @property
    def bytes(self) -> int:
        """Return the size of the rows in Arrow's memory, about."""
        return self._bytes

    def append(self, facts: BatchFacts, batch: pa.RecordBatch | None) -> None:
        """Add the next batch; None will do for one without rows."""
        self.extend([facts], [] if batch is None else [batch])

    def extend(self, entries: Iterable[BatchFacts], pieces: Iterable[pa.RecordBatch]) -> None:
        """Add the next batches, their rows in whatever pieces they are at hand: fewer are merged sooner."""
        end = self._end
        for facts in entries:
            assert facts.base_offset == end
            self._directory.append(facts)
            end = facts.end_offset
        for piece in pieces:
            if piece.num_rows:
                self._pending.append(piece)
                self._bytes += bytes_of(piece)
                self._end += piece.num_rows
        assert self._end == end
        if len(self._pending) >= _PENDING_MAX:
            self._merge()

    def snapshot(self) -> TailView:
        """Return everything appended so far, immutable."""
        self._merge()
        return TailView(self._schema, self._start, self._end, tuple(self._chunks), self._directory.snapshot())

    def _merge(self) -> None:
        if not self._pending:
            return
        groups = [[chunk] for chunk in self._chunks]
        sizes = [chunk.batch.num_rows for chunk in self._chunks]
        for batch in self._pending:
            groups.append([Chunk(batch)])
            sizes.append(batch.num_rows)
            while len(sizes) > 1 and 2 * sizes[-1] >= sizes[-2] and sizes[-1] + sizes[-2] <= CHUNK_ROWS_MAX:
                newer, rows = groups.pop(), sizes.pop()
                groups[-1].extend(newer)
                sizes[-1] += rows
        self._chunks = [group[0] if len(group) == 1 else _merged(group) for group in groups]
        self._pending = []


class Chunk:
    """Rows of a tail in one batch, and the bare values of its columns once rows were taken out of them."""

    __slots__ = ("_values", "batch")

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self._values: dict[str, Values] = {}

    def values(self, name: str) -> Values:
        """Return a column, as bare values where it has nothing else."""
        found = self._values.get(name)
        if found is None:
            array = self.batch.column(name)
            plain = plain_values(array)
            found = self._values[name] = array if plain is None else plain
        return found


def _merged(chunks: list[Chunk]) -> Chunk:
    return Chunk(pa.concat_batches([chunk.batch for chunk in chunks]))


def bytes_of(batch: pa.RecordBatch) -> int:
    """Return the size of a batch in memory, about."""
    # The exact answer takes longer than appending a row; it is needed only for slices of large batches.
    total = int(batch.get_total_buffer_size())
    return total if total < 1 << 16 else int(batch.nbytes)


class TailView:
    """The tail as it was at one moment. Its chunks are its blocks."""

    def __init__(
        self, schema: pa.Schema, start: int, end: int, chunks: tuple[Chunk, ...], directory: BatchDirectory
    ) -> None:
        self.schema = schema
        self.start = start
        self.end = end
        self._chunks = chunks
        self.directory = directory

    def __repr__(self) -> str:
        return f"TailView(start={self.start}, end={self.end}, chunks={len(self._chunks)})"

    @property
    def chunks(self) -> list[pa.RecordBatch]:
        """Return the rows, a batch for each chunk."""
        return [chunk.batch for chunk in self._chunks]

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.end - self.start

    @property
    def dense(self) -> bool:
        """Tell that every offset has its row."""
        return True

    @property
    def block_count(self) -> int:
        """Return the number of chunks."""
        return len(self._chunks)

    @cached_property
    def block_starts(self) -> Int64s:
        """Return the first row of each chunk, and the number of rows at the end."""
        return np.cumsum([0, *(chunk.batch.num_rows for chunk in self._chunks)], dtype=np.int64)

    def block_rows(self, i: int) -> int:
        """Return the number of rows in chunk `i`."""
        return int(self._chunks[i].batch.num_rows)

    def has_column(self, name: str) -> bool:
        """Tell whether the tail stores a column."""
        return bool(self.schema.get_field_index(name) >= 0)

    def read_block(self, i: int, columns: Sequence[str], *, use_cache: bool = False) -> list[pa.Array]:
        """Return columns of a chunk, as they are in memory."""
        batch = self._chunks[i].batch
        return [batch.column(name) for name in columns]

    def offsets_of_block(self, i: int) -> Int64s:
        """Return the offset of each row of a chunk."""
        return np.arange(self.start + self.block_starts[i], self.start + self.block_starts[i + 1], dtype=np.int64)

    def row_of(self, offsets: Int64s) -> Int64s:
        """Return the row of each offset, -1 for offsets outside."""
        return dense_rows(offsets, start=self.start, end=self.end)

    def take(self, rows: Int64s, columns: Sequence[str]) -> list[pa.Array]:
        """Return columns of the given rows, in the given order."""
        types = [self.schema.field(name).type for name in columns]
        return gather(rows, self.block_starts, types, self._values_of(columns))

    def _values_of(self, columns: Sequence[str]) -> Callable[[int], list[Values]]:
        return lambda block: [self._chunks[block].values(name) for name in columns]
