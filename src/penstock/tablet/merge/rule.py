"""The merge rule, as a protocol: it turns incoming rows and the rows they meet into the rows to store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.schema.agg_mode import AggMode
from penstock.model.schema.stored_field import absent_values, default_of
from penstock.tablet.merge.key_groups import KeyGroups

Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

Fetch = Callable[[Offsets, pa.Schema], pa.RecordBatch]
"""Return the stored rows of these offsets, with these columns, in the order asked."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expectation of a request about each of its keys: the offset of the live row, NO_OFFSET for none.

    `rows` says which row of its call each one is.
    """

    offsets: Offsets
    rows: npt.NDArray[np.int64]

    def take(self, places: npt.NDArray[np.int64]) -> Expected:
        """Return what is expected of the keys at these places."""
        return Expected(self.offsets[places], self.rows[places])

    def slice(self, start: int, count: int) -> Expected:
        """Return what is expected of some keys that follow each other."""
        return Expected(self.offsets[start : start + count], self.rows[start : start + count])


@dataclass(frozen=True, slots=True)
class Request:
    """One bucket's part of a write, in storage terms: columns are named by id.

    `rows` has the key columns and those written. `deletes` marks the rows that delete (None: none
    does). `columns` are the ids that the writer named; None means every column of the schema.
    `clears`: the named columns become null, and a row that has nothing left goes. On aggregating
    tables `mode` says what the values are, and `retracts` marks rows that take theirs back.
    `exact`: the rows are whole images, stored as they are, whatever the rule. `calls` numbers the call
    that each row came with, ascending, where several are planned together; None: one call. A live row at
    `doubted` or later may be there only by changes that another owner's undo takes back: a write of it is a
    change, though he leaves it as it is. None: there is no such row.

    A live row below `aged` was written so long ago that a write of it is to be seen in the log: it makes a change, too,
    where it leaves the row as it is or loses to it. None: nothing of the kind is asked for.

    `expected`: the request is made only if every key's live row is the one expected; its keys are distinct.
    `only_checked`: nothing is made of it even then.
    """

    rows: pa.RecordBatch
    keys: pa.BinaryArray | None
    deletes: Mask | None = None
    columns: tuple[int, ...] | None = None
    clears: bool = False
    mode: AggMode = AggMode.ACCUMULATE
    retracts: Mask | None = None
    exact: bool = False
    calls: npt.NDArray[np.int64] | None = None
    doubted: int | None = None
    expected: Expected | None = None
    only_checked: bool = False
    aged: int | None = None

    def take(self, places: npt.NDArray[np.int64]) -> Request:
        """Return the rows at these places, in that order."""
        chosen = pa.array(places)
        return replace(
            self,
            rows=self.rows.take(chosen),
            keys=None if self.keys is None else self.keys.take(chosen),
            deletes=None if self.deletes is None else self.deletes[places],
            retracts=None if self.retracts is None else self.retracts[places],
            expected=None if self.expected is None else self.expected.take(places),
        )

    def slice(self, start: int, count: int) -> Request:
        """Return some rows that follow each other."""
        end = start + count
        return replace(
            self,
            rows=self.rows.slice(start, count),
            keys=None if self.keys is None else self.keys.slice(start, count),
            deletes=None if self.deletes is None else self.deletes[start:end],
            retracts=None if self.retracts is None else self.retracts[start:end],
            expected=None if self.expected is None else self.expected.slice(start, count),
        )

    def doubts(self, live: Offsets) -> Mask | None:
        """Tell which of these live rows may be there only until an undo; None: none may."""
        return None if self.doubted is None else live >= self.doubted

    def refreshes(self, live: Offsets) -> Mask | None:
        """Tell which of these live rows are so old that a write of them is a change; None: none is."""
        if self.aged is None:
            return None
        old = (live >= 0) & (live < self.aged)
        return old if old.any() else None

    def insists(self, live: Offsets) -> Mask | None:
        """Tell of which of these live rows a write is a change though it leaves them as they are; None: of none."""
        doubted, old = self.doubts(live), self.refreshes(live)
        return old if doubted is None else doubted if old is None else doubted | old


@dataclass(frozen=True, slots=True)
class Merged:
    """The rows to store, in log order, if they turn out to be changes.

    `images` has every user column of the storage schema. `groups` groups these rows by key.
    `deletes` marks rows that delete; a delete of an absent key is no change. `accept` (in row
    order) leaves out rows that the rule refuses or that change nothing; None accepts all. `folded`
    tells how many rows of the request each row stands for; None: one. `calls` numbers the call of each
    row, if the request numbers those of its rows and they were folded.
    """

    images: pa.RecordBatch
    groups: KeyGroups
    deletes: Mask | None = None
    accept: Mask | None = None
    folded: npt.NDArray[np.int64] | None = None
    calls: npt.NDArray[np.int64] | None = None


class MergeRule(Protocol):
    """The rule by which incoming rows combine with what is there. Pure."""

    def merge(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> Merged:
        """Return the rows to store; `schema` has the user columns of the storage schema."""


def refresh(merged: Merged, refreshed: Mask, fetch: Fetch, schema: pa.Schema) -> Merged:
    """Return rows in which the first row of some keys is the one that is stored, written again as it is.

    None of the rows of these keys was accepted.
    """
    groups, images = merged.groups, merged.images
    first = groups.first_rows[refreshed]
    # The fields of `schema` know their defaults; those of rows that came from a writer do not.
    stored = fetch(groups.live[refreshed], schema)
    # The stored rows are appended to the images, and one `take` puts each in the place of its key's first row.
    source = np.arange(images.num_rows)
    source[first] = images.num_rows + np.arange(len(first))
    assert merged.accept is not None
    accept = merged.accept.copy()
    accept[first] = True
    return replace(merged, images=pa.concat_batches([images, stored]).take(pa.array(source)), accept=accept)


def complete(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with every column of the schema; one that they lack has its default, or is null."""
    if rows.schema.equals(schema):
        return rows
    present = {name: rows.column(index) for index, name in enumerate(rows.schema.names)}
    arrays = [present[f.name] if f.name in present else absent_values(f, rows.num_rows) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def defaulted(values: pa.Array, field: pa.Field, new: Mask) -> pa.Array:
    """Return what rows have in a column that their write leaves out: new rows its default, where it has one."""
    default = default_of(field)
    return values if default is None or not new.any() else pc.if_else(pa.array(new), default, values)


def live_before(groups: KeyGroups, deletes: Mask | None) -> Mask:
    """Tell for each row whether its key is live when the row is applied, rows being applied in order.

    Holds for every rule in which an upsert, accepted or not, leaves its key live, and a delete,
    effective or not, leaves it absent.
    """
    ordered = np.empty(len(groups.order), np.bool_)
    if deletes is None:
        ordered[:] = True
    else:
        # In key order a row meets what the row before it left. This also crosses from key to key, so the first row of
        # each key is then set from the stored row.
        ordered[1:] = ~deletes[groups.order][:-1]
    ordered[groups.starts] = groups.live >= 0
    result = np.empty(len(ordered), np.bool_)
    result[groups.order] = ordered
    return result
