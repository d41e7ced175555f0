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

from penstock.model.filter.filter import Filter
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
    """Shows the changes of one table to a reader who asked for some of its columns. Thread-safe: it never changes."""

    def __init__(self, schema: Schema, projection: Projection, chosen: Filter | None = None, *, before: bool) -> None:
        self.keyed = schema.keyed
        self.filter = Filter(None, schema) if chosen is None else chosen
        self._projection = projection
        self._before = before
        keys = {column.id for column in schema.key_columns}
        self._is_key = [column.id in keys for column in projection.columns]
        tested = self.filter.bound_columns
        self._tested = pa.schema([column.stored for column in tested])
        self._tests_keys_only = all(column.id in keys for column in tested)
        self.stored = projection.stored_with((*self._tested, *(SYSTEM_FIELDS if schema.keyed else ())))
        self.shown = [
            pa.field(column.name, column.type, nullable=column.id not in keys) for column in projection.columns
        ]

    def passing(self, view: TabletView, block: RowBlock) -> RowBlock:
        """Return the changes of a block, read with the columns `stored`, as one sees them who knows what passes alone.

        An update that leaves the filter is a delete to that reader, one that enters it an insert; what is outside of it
        before and after is no change.
        """
        if self.filter.is_all:
            return block
        after = self.filter.mask_stored(block.batch)
        if not self.keyed:
            return _kept(block, after)
        ops = block.batch.column(OP).to_numpy()
        before = self._passed_before(view, block, ops, after)
        after = after & (ops != Op.DELETE)
        seen = np.where(after, np.where(before, Op.UPDATE, Op.INSERT), Op.DELETE).astype(np.int8)
        place = block.batch.schema.get_field_index(OP)
        columns = [*block.batch.columns[:place], pa.array(seen), *block.batch.columns[place + 1 :]]
        return _kept(
            RowBlock(block.offsets, pa.RecordBatch.from_arrays(columns, schema=block.batch.schema)), before | after
        )

    def _passed_before(
        self, view: TabletView, block: RowBlock, ops: npt.NDArray[np.int8], after: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Return of each change whether the row that it replaced passed."""
        replaces = ops != Op.INSERT
        if self._tests_keys_only:
            # A change has the key of the row that it replaces.
            passed: npt.NDArray[np.bool_] = np.logical_and(replaces, after)
            return passed
        before = np.zeros(len(ops), np.bool_)
        if replaces.any():
            rows = view.gather(block.batch.column(PREV).to_numpy()[replaces], self._tested)
            before[replaces] = self.filter.mask_stored(rows)
        return before

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


def _kept(block: RowBlock, mask: npt.NDArray[np.bool_]) -> RowBlock:
    return block if mask.all() else RowBlock(block.offsets[mask], block.batch.filter(pa.array(mask)))


def _words(codes: npt.NDArray[np.int8]) -> pa.StringArray:
    return _WORDS.take(pa.array(codes))
