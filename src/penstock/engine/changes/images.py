"""Changes as a changelog shows them: what each did, with the row before and the row after.

A stored change is its after-image and the offset of the row it replaced. The row before is gathered
from there, so it is stored once only. An update is one change and, if images before are wanted, two
rows of the same offset, the one before first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.place.change import OP, PREV, SYSTEM_FIELDS, ChangeType, Op
from penstock.model.schema.projection import Projection
from penstock.model.schema.schema import Schema
from penstock.tablet.view.span import RowBlock
from penstock.tablet.view.view import TabletView

Int64s = npt.NDArray[np.int64]

_WORDS: Final = pa.array([kind.value for kind in ChangeType], pa.string())
_INSERT, _BEFORE, _AFTER, _DELETE, _APPEND = (np.int8(i) for i in range(len(ChangeType)))
_LAST_CODE: Final = np.array([_INSERT, _AFTER, _DELETE], np.int8)
"""By operation: what the last (or only) row of a change is."""


class Shown(NamedTuple):
    """Rows of a changelog. `ends[i]` rows belong to the first i + 1 changes."""

    columns: list[pa.Array]
    types: pa.StringArray
    offsets: Int64s
    ends: Int64s


class ChangeImages:
    """Shows the changes of one table to a reader who asked for some of its columns. Thread-safe."""

    def __init__(self, schema: Schema, projection: Projection, *, before: bool) -> None:
        self.keyed = schema.keyed
        self._projection = projection
        self._before = before
        keys = {column.id for column in schema.key_columns}
        self._is_key = [column.id in keys for column in projection.columns]
        self.stored = projection.stored_with(SYSTEM_FIELDS if schema.keyed else ())
        self.shown = [
            pa.field(column.name, column.type, nullable=column.id not in keys) for column in projection.columns
        ]

    def show(self, view: TabletView, block: RowBlock) -> Shown:
        """Return the changes of a block, read with the columns `stored`, as rows of a changelog."""
        after = block.batch.columns[: len(self.shown)]
        rows = len(block.offsets)
        if not self.keyed:
            codes = np.full(rows, _APPEND, np.int8)
            return Shown(after, _words(codes), block.offsets, np.arange(1, rows + 1))
        ops = block.batch.column(OP).to_numpy()
        if self._before:
            return self._full(view, block, ops, after)
        if (ops == Op.DELETE).any():
            after = self._keys_only(after, ops)
        return Shown(after, _words(_LAST_CODE[ops]), block.offsets, np.arange(1, rows + 1))

    def _full(self, view: TabletView, block: RowBlock, ops: npt.NDArray[np.int8], after: list[pa.Array]) -> Shown:
        replaces, updates = ops != Op.INSERT, ops == Op.UPDATE
        ends = np.cumsum(1 + updates)
        if not replaces.any():
            return Shown(after, _words(_LAST_CODE[ops]), block.offsets, ends)
        before = view.gather(block.batch.column(PREV).to_numpy()[replaces], self._projection.stored)
        # Rows are taken from the images before, which stand first, and those after, which follow.
        image_before, image_after = np.cumsum(replaces) - 1, before.num_rows + np.arange(len(ops))
        places, codes = np.empty(ends[-1], np.int64), np.empty(ends[-1], np.int8)
        last, first = ends - 1, ends[updates] - 2
        places[last] = np.where(ops == Op.DELETE, image_before, image_after)
        codes[last] = _LAST_CODE[ops]
        places[first] = image_before[updates]
        codes[first] = _BEFORE
        taken = pa.array(places)
        columns = [pa.concat_arrays(pair).take(taken) for pair in zip(before.columns, after, strict=True)]
        return Shown(columns, _words(codes), np.repeat(block.offsets, 1 + updates), ends)

    def _keys_only(self, columns: list[pa.Array], ops: npt.NDArray[np.int8]) -> list[pa.Array]:
        """Null the other columns of deletes."""
        places = pa.array(np.arange(len(ops)), mask=ops == Op.DELETE)
        return [column if is_key else column.take(places) for column, is_key in zip(columns, self._is_key, strict=True)]


def _words(codes: npt.NDArray[np.int8]) -> pa.StringArray:
    return _WORDS.take(pa.array(codes))
