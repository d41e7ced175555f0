"""The age of rows, by the times of the batches that wrote them: where rows go some time after their last write.

A write that leaves a row as it is gives it no new offset, so nothing would tell of it. On such a table it is
written all the same, as a change, if the row is older than a grain. So a row may have been written up to a grain
after the time of its batch, and counts as that much younger: never too old, and at most a grain too young.

Times never decrease with offsets. So of one bucket the rows older than any age are those below one offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.tablet.view.view import TabletView

GRAIN_MS_MAX: Final = 10_000
GRAINS: Final = 10
"""A grain is the tenth of the time that rows have, or ten seconds."""


@dataclass(frozen=True, slots=True)
class RowAge:
    """The age at which rows go: how long they stay after their last write."""

    ttl_ms: int

    @classmethod
    def of(cls, ttl_ms: int | None) -> RowAge | None:
        """Return the age that rows may reach; None: any."""
        return None if ttl_ms is None else cls(ttl_ms)

    @property
    def grain_ms(self) -> int:
        """Return how exactly the time of the last write is known."""
        return max(1, min(GRAIN_MS_MAX, self.ttl_ms // GRAINS))

    def aged(self, view: TabletView, newest_ms: int, now_ms: int) -> int:
        """Return the offset below which a write of a row is to be seen in the log; `newest_ms` is the newest time."""
        return first_written_at(view, newest_ms, now_ms - self.grain_ms)

    def expired(self, view: TabletView, newest_ms: int, now_ms: int) -> int:
        """Return the offset below which rows are older than they may be."""
        return first_written_at(view, newest_ms, now_ms - self.ttl_ms - self.grain_ms)


def first_written_at(view: TabletView, newest_ms: int, time_ms: int) -> int:
    """Return the offset below which every row was written before a time.

    Rows whose time is not known any more count as written when the oldest was of which it is.
    """
    if newest_ms < time_ms:
        return view.visible
    found = 0
    for span in reversed(view.spans):
        directory = span.runs[0].rows.directory if span.runs else None
        if directory is None or not len(directory):
            continue
        first = directory.first_offset_at(time_ms)
        if first is None:
            return max(found, span.end)
        if int(directory.timestamp_ms[0]) < time_ms:
            return first
        found = first
    return 0
