"""The rule `last_row`: the last writer wins, column by column where only some are named.

A full upsert always is a change. A partial update, or a delete of columns, that leaves the row as
it was is none, unless an undo may take away what the update would have made.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.keys.equality import rows_equal
from penstock.model.table.table import TableSpec
from penstock.tablet.merge.key_groups import KeyGroups
from penstock.tablet.merge.rule import Fetch, Merged, Request, complete, defaulted, live_before

Mask = npt.NDArray[np.bool_]


class LastRow:
    """The last row written for a key is its row."""

    def __init__(self, key_columns: tuple[int, ...]) -> None:
        self._key_names = frozenset(str(column) for column in key_columns)

    @classmethod
    def of(cls, table: TableSpec) -> LastRow:
        """Return the rule of a table."""
        return cls(tuple(column.id for column in table.schema.key_columns))

    def merge(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> Merged:
        """Return the rows to store."""
        if request.clears:
            return self._clear(request, groups, fetch, schema)
        if request.columns is None:
            return Merged(complete(request.rows, schema), groups, request.deletes)
        return self._update(request, groups, fetch, schema)

    def _update(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> Merged:
        """Write the named columns over the row that was there; the others keep their values."""
        written = {name: request.rows.column(i) for i, name in enumerate(request.rows.schema.names)}
        old = self._old_rows(groups, fetch, schema)
        gone = _deleted_before(groups, request.deletes)
        # Null in `stored` stands for "no old row", where an earlier row of this batch deletes the key. Otherwise the
        # columns that are not named come from the stored row, however often the key repeats: every row of this batch
        # leaves them as they are.
        stored, new = pa.array(groups.group_of_row, mask=gone), groups.live[groups.group_of_row] < 0
        new = new if gone is None else new | gone
        arrays = [
            written[f.name] if f.name in written else defaulted(old.column(f.name).take(stored), f, new) for f in schema
        ]
        targets = [name for name in written if name not in self._key_names]
        # Equal values alone do not make a row idle: where the key is absent, the row creates it.
        accept = ~(_same_as_before(request.rows, old, groups, targets) & live_before(groups, request.deletes))
        if request.deletes is not None:
            accept |= request.deletes
        insisted = request.insists(groups.live)
        if insisted is not None:
            accept[groups.first_rows[insisted]] = True
        return Merged(pa.RecordBatch.from_arrays(arrays, schema=schema), groups, request.deletes, accept)

    def _clear(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> Merged:
        """Null the named columns; delete rows in which no column is left. Repeated keys do nothing more."""
        assert request.columns is not None
        cleared = {str(column) for column in request.columns}
        old = self._old_rows(groups, fetch, schema)
        stored = pa.array(groups.group_of_row)
        arrays, left, touched = [], np.zeros(groups.count, np.bool_), np.zeros(groups.count, np.bool_)
        for field in schema:
            if field.name in self._key_names:
                arrays.append(request.rows.column(field.name))
                continue
            there = old.column(field.name).is_valid().to_numpy(zero_copy_only=False)
            if field.name in cleared:
                touched |= there
                arrays.append(pa.nulls(len(stored), field.type))
            else:
                left |= there
                arrays.append(old.column(field.name).take(stored))
        first = np.zeros(len(stored), np.bool_)
        first[groups.first_rows] = True
        aged = request.refreshes(groups.live)
        if aged is not None:
            touched |= aged
        # By key: `touched` has a value to clear, `left` keeps one outside the key. A live row without any value left
        # goes.
        changes = (groups.live >= 0) & (touched | ~left)
        images = pa.RecordBatch.from_arrays(arrays, schema=schema)
        return Merged(
            images, groups, deletes=first & ~left[groups.group_of_row], accept=first & changes[groups.group_of_row]
        )

    def _old_rows(self, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> pa.RecordBatch:
        """Return the values of the live row of each key, nulls where it has none."""
        columns = pa.schema([field for field in schema if field.name not in self._key_names])
        there = groups.live >= 0
        found = fetch(groups.live[there], columns)
        if there.all() or not len(columns):
            return found
        # `found` has rows of live keys only. The count of live keys up to each one is its place there; the mask makes
        # the others null.
        return found.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _deleted_before(groups: KeyGroups, deletes: Mask | None) -> Mask | None:
    """Tell for each row whether an earlier row of the batch deletes its key; None if none does."""
    if deletes is None:
        return None
    ordered = deletes[groups.order]
    # A running count of deletes over all rows, without the row's own; that at the key's first row is taken off below,
    # which leaves the deletes of this key.
    before = np.cumsum(ordered, dtype=np.int64) - ordered
    earlier = np.empty(len(before), np.bool_)
    earlier[groups.order] = before > before[groups.starts][groups.group]
    return earlier


def _same_as_before(rows: pa.RecordBatch, old: pa.RecordBatch, groups: KeyGroups, targets: list[str]) -> Mask:
    """Tell for each row whether the target columns equal those of the row that it follows."""
    count = len(groups.order)
    # Row i follows the row before it with the same key, or else the stored row of its key.
    follows = np.empty(count, np.int64)
    follows[1:] = groups.order[:-1]
    follows[groups.starts] = count + np.arange(groups.count)
    before = np.empty(count, np.int64)
    before[groups.order] = follows
    same = np.ones(count, np.bool_)
    for name in targets:
        values = rows.column(name)
        # New values first, then the stored one of each key: `before` counts stored rows from `count` on.
        both = pa.concat_arrays([values, old.column(name)])
        same &= rows_equal(values, both.take(pa.array(before)))
    return same
