"""A batch cut into segments, one for each key: what turns a fold by key into reductions of arrays.

Each segment has a *slot* in the result. Rows are seen in segment order: by slot and, within one, as
they came. No segment is empty. Where no key repeats, segment order is the order in which the rows
came, and a reduction has nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.keys.fixed_width import taken
from penstock.tablet.merge.key_groups import KeyGroups

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
NO_ROW = -1
_SHORT_ROWS = 10


@dataclass(frozen=True)
class Segments:
    """Rows in segment order; `order` and `starts` are None where every row is a segment of its own."""

    rows: int
    order: Rows | None = None
    starts: Rows | None = None

    @classmethod
    def of(cls, groups: KeyGroups) -> Segments:
        """Return the segments of grouped rows; the slots are the groups where keys repeat, else the rows."""
        if groups.count == len(groups.order):
            return cls(groups.count)
        return cls(len(groups.order), groups.order, np.flatnonzero(groups.starts))

    @property
    def count(self) -> int:
        """Return how many segments there are."""
        return self.rows if self.starts is None else len(self.starts)

    @cached_property
    def lengths(self) -> Rows:
        """Return how many rows each segment has."""
        if self.starts is None:
            return np.ones(self.rows, np.int64)
        lengths = np.empty(len(self.starts), np.int64)
        np.subtract(self.starts[1:], self.starts[:-1], out=lengths[:-1])
        lengths[-1:] = self.rows - self.starts[-1:]
        return lengths

    @cached_property
    def longest(self) -> int:
        """Return the rows of the longest segment."""
        return int(self.lengths.max(initial=0))

    @cached_property
    def slots(self) -> Rows:
        """Return the slot of each row."""
        return np.arange(self.rows) if self.starts is None else np.repeat(np.arange(self.count), self.lengths)

    def arrange(self, column: pa.Array) -> pa.Array:
        """Return a column, given as its rows came, in segment order."""
        return column if self.order is None else taken(column, self.order)

    def arrange_mask(self, mask: Mask | None) -> Mask | None:
        """Return a mask, given as the rows came, in segment order."""
        return mask if mask is None or self.order is None else mask[self.order]

    def reduce(self, operation: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return one value for each segment."""
        if self.starts is None:
            return values
        reduced: npt.NDArray[Any] = operation.reduceat(values, self.starts)
        return reduced

    def sum(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the sum of each segment, of words that wrap around as they will."""
        if self.starts is None or self.rows > _SHORT_ROWS * self.count:
            return self.reduce(np.add, values)
        # A reduction costs short segments more than their rows do. That running totals may wrap is no matter.
        totals = values.cumsum().take(self.starts + (self.lengths - 1))
        totals[1:] -= totals[:-1].copy()
        return totals

    def any(self, mask: Mask | None) -> Mask:
        """Tell for each segment whether the mask holds for one of its rows; None holds for all."""
        return np.ones(self.count, np.bool_) if mask is None else self.reduce(np.logical_or, mask)

    def tally(self, mask: Mask | None) -> Rows:
        """Return for each segment how many rows the mask holds for."""
        return self.lengths if mask is None else self.sum(mask.astype(np.int64))

    def last(self, mask: Mask | None) -> Rows:
        """Return for each segment the last row that the mask holds for, or NO_ROW."""
        rows = np.arange(self.rows)
        if mask is not None:
            rows = np.where(mask, rows, NO_ROW)
        return self.reduce(np.maximum, rows)

    def first(self, mask: Mask | None) -> Rows:
        """Return for each segment the first row that the mask holds for, or NO_ROW."""
        rows = np.arange(self.rows)
        if mask is not None:
            rows = np.where(mask, rows, self.rows)
        found = self.reduce(np.minimum, rows)
        return np.where(found < self.rows, found, NO_ROW)
