"""The rows of the segment that takes a bucket's writes, in memory, and their ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from penstock.log.segment_writer import Entry
from penstock.log.tail import Tail
from penstock.tablet.schema import TabletSchema
from penstock.tablet.state.closed_tail import ClosedTail
from penstock.tablet.view.ends import Ends
from penstock.tablet.view.span import Run, Span


class GrowingTail:
    """The published rows behind all finished segments. Committer only; a span that was returned never changes."""

    def __init__(self, schema: TabletSchema, start: int) -> None:
        self._schema = schema
        self._tail = Tail(schema.storage, start)
        self._ends = Ends()

    @property
    def start(self) -> int:
        """Return the first row's offset."""
        return self._tail.start

    @property
    def end(self) -> int:
        """Return the offset of the next row."""
        return self._tail.end

    @property
    def bytes(self) -> int:
        """Return how much memory the rows take, about."""
        return self._tail.bytes

    def extend(self, entries: Sequence[Entry], pieces: Iterable[pa.RecordBatch]) -> None:
        """Take in batches of the log, their rows as they were planned."""
        self._tail.extend([facts for facts, _ in entries], pieces)

    def span(self) -> Span | None:
        """Return the rows as they are now, None without any."""
        rows = self._tail.snapshot()
        if not rows.rows:
            return None
        self._ends.cover(rows.rows)
        return Span(rows.start, rows.end, (Run(rows, self._ends),))

    def closed(self, segment: str) -> ClosedTail:
        """Return the rows for good: the segment that has them is finished."""
        return ClosedTail(Run(self._tail.snapshot(), self._ends), self._schema, (segment,), self._tail.bytes)
