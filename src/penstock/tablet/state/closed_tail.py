"""Rows that take no more: their segments are finished, and not yet sealed into a data file."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.tablet.schema import TabletSchema
from penstock.tablet.view.span import Run, Span


@dataclass(frozen=True, slots=True)
class ClosedTail:
    """Rows in memory, with the segments that have them on disk."""

    run: Run
    schema: TabletSchema
    segments: tuple[str, ...]
    bytes: int

    @property
    def span(self) -> Span:
        """Return the rows as a span."""
        return Span(self.run.rows.start, self.run.rows.end, (self.run,))
