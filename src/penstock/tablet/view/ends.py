"""The ends of rows. One array per run of rows, made when the first of its rows is replaced.

A row's end is the offset of the change that replaced it, OFFSET_MAX while it is live. Row r is
visible at X iff r < X <= end[r]. A writer only ever stores ends that are >= every open X, and an
aligned 8-byte store is not torn, so readers look at the array while it is written and take no lock.

Only the committer stores. A change ends only a live row (I-9): anything else means that
the plan of the change looked at a stale index.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.errors import CorruptionError
from penstock.model.place.change import OFFSET_MAX

Offsets = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]


class Ends:
    """The ends of the rows of one run."""

    __slots__ = ("array", "ended")

    def __init__(self, array: Offsets | None = None) -> None:
        self.array: Offsets | None = None
        self.ended = 0
        self.load(array)

    def load(self, array: Offsets | None) -> None:
        """Have these ends, whatever was there; None: every row is live."""
        self.array = array
        self.ended = 0 if array is None else int(np.count_nonzero(array != OFFSET_MAX))

    def cover(self, size: int) -> None:
        """See to it that an array, where there is one, has an end for each of `size` rows."""
        if self.array is not None:
            self._sized(size)

    def are_live(self, rows: Rows) -> bool:
        """Tell whether every one of these rows is live."""
        array = self.array
        return array is None or bool(np.all(array[rows] == OFFSET_MAX))

    def store(self, rows: Rows, offsets: Offsets, size: int) -> None:
        """End distinct live rows; `size` is how many rows the run has, or will have, at least."""
        array = self._sized(size)
        # Checked for all rows before any is stored, so a refused change leaves every end as it was.
        if not np.all(array[rows] == OFFSET_MAX):
            raise CorruptionError("a change ends a row that is not live; open the bucket again")
        array[rows] = offsets
        self.ended += len(rows)

    def restore(self, rows: Rows, offsets: Offsets, size: int) -> bool:
        """End rows again on replay; False if one had ended at another offset (I-9)."""
        array = self._sized(size)
        before = array[rows]
        # Replay meets ends that were stored before the crash: the same end again is right, another one is not.
        fresh = before == OFFSET_MAX
        if not np.all(fresh | (before == offsets)):
            return False
        array[rows] = offsets
        self.ended += int(np.count_nonzero(fresh))
        return True

    def before(self, offset: int, size: int) -> Offsets | None:
        """Return the ends as they were at `offset`, or None where no row had ended."""
        if self.array is None:
            return None
        # A copy first: the committer stores on.
        array = self.array[:size].copy()
        array[array >= offset] = OFFSET_MAX
        return array if bool(np.any(array != OFFSET_MAX)) else None

    def unchanged_since(self, offset: int) -> bool:
        """Tell whether no row ended at `offset` or later."""
        array = self.array
        # OFFSET_MAX is greater than every offset and means "live", so it must be left out by name.
        return array is None or not np.any((array >= offset) & (array != OFFSET_MAX))

    def _sized(self, size: int) -> Offsets:
        if self.array is None:
            self.array = np.full(size, OFFSET_MAX, np.int64)
        elif len(self.array) < size:
            # The old array stays with the readers that hold it: what they miss ended after their X.
            grown = np.full(max(size, 2 * len(self.array)), OFFSET_MAX, np.int64)
            grown[: len(self.array)] = self.array
            self.array = grown
        return self.array
