"""The rule `last_row`: the last writer wins, column by column where only some are named.

A full upsert always is a change. A partial update, or a delete of columns, that leaves the row as
it was is none.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.equality import rows_equal
from penstock.tablet.key_groups import KeyGroups
from penstock.tablet.merge_rule import Fetch, Merged, Request, complete, live_before

Mask = npt.NDArray[np.bool_]


class LastRow:
    """The last row written for a key is its row."""

    def __init__(self, key_columns: tuple[int, ...]) -> None:
        self._key_names = frozenset(str(column) for column in key_columns)

    def merge(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> Merged:
        """Return the rows to store."""
        if request.clears:
            return self._clear(request, groups, fetch, schema)
        if request.columns is None or request.deletes is not None:
            return Merged(complete(request.rows, schema), groups, request.deletes)
        return self._update(request, groups, fetch, schema)

    def _update(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> Merged:
        """Write the named columns over the row that was there; the others keep their values."""
        written = {name: request.rows.column(i) for i, name in enumerate(request.rows.schema.names)}
        old = _old_rows(groups, fetch, pa.schema([f for f in schema if f.name not in self._key_names]))
        group_of_row = pa.array(groups.group_of_row)
        arrays = [written[f.name] if f.name in written else old.column(f.name).take(group_of_row) for f in schema]
        targets = [name for name in written if name not in self._key_names]
        same = _same_as_before(request.rows, old, groups, targets)
        return Merged(
            pa.RecordBatch.from_arrays(arrays, schema=schema), groups, accept=~(same & live_before(groups, None))
        )

    def _clear(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> Merged:
        """Null the named columns; delete rows in which no column is left. Repeated keys do nothing more."""
        assert request.columns is not None
        cleared = {str(column) for column in request.columns}
        first = groups.first_rows
        old = _old_rows(groups, fetch, pa.schema([f for f in schema if f.name not in self._key_names]))
        rows = request.rows.take(pa.array(first))
        arrays, left, touched = [], np.zeros(groups.count, np.bool_), np.zeros(groups.count, np.bool_)
        for field in schema:
            if field.name in self._key_names:
                arrays.append(rows.column(field.name))
                continue
            there = old.column(field.name).is_valid().to_numpy(zero_copy_only=False)
            if field.name in cleared:
                touched |= there
                arrays.append(pa.nulls(groups.count, field.type))
            else:
                left |= there
                arrays.append(old.column(field.name))
        single = KeyGroups(
            np.arange(groups.count), np.ones(groups.count, np.bool_), np.arange(groups.count), groups.live
        )
        live = groups.live >= 0
        images = pa.RecordBatch.from_arrays(arrays, schema=schema)
        return Merged(images, single, deletes=live & ~left, accept=live & (touched | ~left))


def _old_rows(groups: KeyGroups, fetch: Fetch, columns: pa.Schema) -> pa.RecordBatch:
    """Return the live row of each key, nulls where it has none."""
    there = groups.live >= 0
    found = fetch(groups.live[there], columns)
    if there.all():
        return found
    places = np.where(there, np.cumsum(there) - 1, -1)
    return found.take(pa.array(places, mask=~there)) if len(columns) else found


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
        both = pa.concat_arrays([values, old.column(name)])
        same &= rows_equal(values, both.take(pa.array(before)))
    return same
