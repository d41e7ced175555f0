"""A view: one bucket at one moment, immutable. Readers hold it and nothing else.

Spans tile the retained offsets up to `visible`. Ends are shared with the writer, which never
stores one below an X that a reader may use; everything else in a view never changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import CorruptionError, OffsetOutOfRangeError
from penstock.log.batch_directory import BatchDirectory, concat
from penstock.model.place.bucket import BucketId
from penstock.tablet.view.span import RowBlock, Run, Span

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Located:
    """The places of some rows: for each run, which of the asked rows and where in the run.

    `in_order`: there is one run, and its rows are given in the order asked.
    """

    parts: tuple[tuple[Run, npt.NDArray[np.int64], npt.NDArray[np.int64]], ...]
    in_order: bool = False

    def are_live(self) -> bool:
        """Tell whether every row is live."""
        return all(run.ends.are_live(rows) for run, _, rows in self.parts)


@dataclass(frozen=True, slots=True)
class TabletView:
    """The spans of a bucket, its base, and the offset up to which it is visible."""

    bucket: BucketId
    base: int
    visible: int
    spans: tuple[Span, ...]
    _starts: Offsets = field(repr=False, default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, bucket: BucketId, base: int, visible: int, spans: tuple[Span, ...]) -> TabletView:
        """Return a view over these spans."""
        return cls(bucket, base, visible, spans, np.array([span.start for span in spans], np.int64))

    @property
    def live_rows(self) -> int:
        """Return how many rows are live now (not at `visible`: ends are shared with the writer)."""
        return sum(run.live_rows for span in self.spans for run in span.runs)

    @property
    def rows(self) -> int:
        """Return how many rows are stored, live or history."""
        return sum(run.rows.rows for span in self.spans for run in span.runs)

    def check_readable(self, x: int) -> None:
        """Refuse an X that this view cannot serve.

        Raises:
            OffsetOutOfRangeError: below the base or beyond what is visible.
        """
        if not self.base <= x <= self.visible:
            raise OffsetOutOfRangeError(
                "offset cannot be read: it is below the base or beyond the end",
                offset=x,
                base=self.base,
                end=self.visible,
            )

    def scan(self, x: int, projection: pa.Schema, *, start: int = 0) -> Iterator[RowBlock]:
        """Yield the rows visible at X in offset order, those below `start` left out."""
        for span in self.spans:
            if span.end > start and span.start < x:
                yield from span.visible(x, start, projection)

    def count(self, x: int) -> int:
        """Return how many rows are visible at X."""
        return sum(run.count_visible(x) for span in self.spans if span.start < x for run in span.runs)

    def changes(self, start: int, end: int, projection: pa.Schema) -> Iterator[RowBlock]:
        """Yield the stored changes [start, end) in offset order."""
        for span in self.spans:
            if span.end > start and span.start < end:
                yield from span.between(start, min(end, self.visible), projection)

    def locate(self, offsets: Offsets) -> Located:
        """Find the rows of these offsets.

        Raises:
            CorruptionError: one is not retained, so the index or the change that named it is stale.
        """
        if (found := self._in_one_run(offsets)) is not None:
            return found
        # Sorted, the offsets of a span are a slice, and looking them up in a sparse run stays in the cache.
        order = np.argsort(offsets)
        ordered = offsets[order]
        bounds = [*np.searchsorted(ordered, self._starts).tolist(), len(ordered)]
        parts: list[tuple[Run, npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
        missing = bounds[0]
        for span, low, high in zip(self.spans, bounds[:-1], bounds[1:], strict=True):
            asked, wanted = order[low:high], ordered[low:high]
            for run in span.runs:
                if len(wanted) == 0:
                    break
                rows = run.rows.row_of(wanted)
                hit = rows >= 0
                if hit.all():
                    parts.append((run, asked, rows))
                    asked, wanted = asked[:0], wanted[:0]
                elif hit.any():
                    parts.append((run, asked[hit], rows[hit]))
                    asked, wanted = asked[~hit], wanted[~hit]
            missing += len(wanted)
        if missing:
            raise CorruptionError("a row that is referred to is not in the log", bucket=self.bucket, missing=missing)
        return Located(tuple(parts))

    def _in_one_run(self, offsets: Offsets) -> Located | None:
        """Find rows that are all in one dense run, as those of keys written lately are; None if they are not."""
        if not len(offsets):
            return None
        low, high = int(offsets.min()), int(offsets.max())
        place = int(self._starts.searchsorted(low, side="right")) - 1
        runs = self.spans[place].runs if place >= 0 else ()
        if len(runs) != 1 or not runs[0].rows.dense or low < runs[0].rows.start or high >= runs[0].rows.end:
            return None
        return Located(((runs[0], np.arange(len(offsets)), offsets - runs[0].rows.start),), in_order=True)

    def gather(self, offsets: Offsets, projection: pa.Schema) -> pa.RecordBatch:
        """Return the rows of these offsets, in the order asked."""
        if len(offsets) == 0:
            return pa.RecordBatch.from_pylist([], schema=projection)
        return self.gather_located(self.locate(offsets), projection)

    def gather_located(self, located: Located, projection: pa.Schema) -> pa.RecordBatch:
        """Return rows that were located before, in the order asked then."""
        if located.in_order:
            ((run, _, rows),) = located.parts
            return run.take(rows, projection)
        batches = [run.take(rows, projection) for run, _, rows in located.parts]
        batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        places = np.concatenate([asked for _, asked, _ in located.parts])
        if bool(np.all(places[1:] > places[:-1])):
            return batch
        order = np.empty(len(places), np.int64)
        order[places] = np.arange(len(places))
        return batch.take(pa.array(order))

    def directory(self, start: int, end: int) -> BatchDirectory:
        """Return the facts of the batches that hold changes [start, end)."""
        pieces = [
            span.runs[0].rows.directory.between(start, end)
            for span in self.spans
            if span.end > start and span.start < end
        ]
        return concat(pieces)
