"""Incoming rows by key: how a batch with repeated keys is planned without a loop over rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.keys.keys import sort_keys

Offsets = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Rows grouped by key.

    `order` lists the rows by key and, within a key, as they came; `starts` marks, in that order,
    the first row of each key; `group` numbers the keys, in that order; `live` is, for each key,
    the offset of its live row or -1. `as_they_came`: no key repeats, and the rows come by key.
    """

    order: Rows
    starts: Mask
    group: Rows
    live: Offsets
    as_they_came: bool = False

    @classmethod
    def of_distinct(cls, live: Offsets) -> KeyGroups:
        """Return the groups of rows that come by key, one for each."""
        rows = np.arange(len(live))
        return cls(rows, np.ones(len(live), np.bool_), rows, live, as_they_came=True)

    @property
    def count(self) -> int:
        """Return how many distinct keys there are."""
        return len(self.live)

    @property
    def distinct(self) -> bool:
        """Tell whether no key occurs twice."""
        return len(self.live) == len(self.order)

    @property
    def first_rows(self) -> Rows:
        """Return the first row of each key."""
        return self.order[self.starts]

    @property
    def group_of_row(self) -> Rows:
        """Return the key's number for each row, as the rows came."""
        groups = np.empty(len(self.order), np.int64)
        groups[self.order] = self.group
        return groups

    def with_live(self, live: Offsets) -> KeyGroups:
        """Return the same groups with these live offsets."""
        return KeyGroups(self.order, self.starts, self.group, live)


def group_keys(keys: pa.BinaryArray) -> tuple[KeyGroups, pa.BinaryArray]:
    """Group rows by key; return the groups, none live yet, and the distinct keys, sorted."""
    ordered = sort_keys(keys)
    # Each start of a run of equal keys counts one up, so every row gets the number of its key. Only the rows' order
    # is computed; the rows themselves are not moved.
    group = np.cumsum(ordered.starts, dtype=np.int64) - 1
    distinct = ordered.where(ordered.starts)
    return KeyGroups(ordered.order, ordered.starts, group, np.full(len(distinct), -1, np.int64)), distinct
