"""Rows by key as they were at an offset X of the past: the index knows what is live now, and the log what came since.

A key that did not change since X has the row that the index names. One that did has the row that its first change at X
or later replaced, or none if that change made it. So what is read is the index and the changes since X, never the
table: back from the live row by `_prev`, while few keys have few changes, then all changes from X on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow

from penstock.model.place.change import NO_OFFSET, OP, PREV, SYSTEM_FIELDS, Op
from penstock.tablet.schema import TabletSchema
from penstock.tablet.view.span import RowBlock
from penstock.tablet.view.view import TabletView

Offsets = npt.NDArray[np.int64]

STEPS_MAX: Final = 32
"""How many changes back a key is followed before the log is read instead."""
_PREV_ONLY: Final = pa.schema([SYSTEM_FIELDS[1]])


def past_offsets(view: TabletView, schema: TabletSchema, keys: pa.BinaryArray, live: Offsets, x: int) -> Offsets:
    """Return where the rows of distinct keys began that were visible at X, NO_OFFSET where there was none.

    `live` is what the index says of each key as of the view.

    Raises:
        OSError: as the disk gave it.
    """
    found = live.copy()
    if view.visible == x:
        return found
    newer = np.flatnonzero(found >= x)
    lost = [np.flatnonzero(found == NO_OFFSET)]
    for _ in range(STEPS_MAX):
        if len(newer) == 0 or len(newer) * 4 > view.visible - x:
            break
        found[newer] = view.gather(found[newer], _PREV_ONLY).column(0).to_numpy()
        # What was made at X or later may have been deleted before: its life of then is not reached from here.
        lost.append(newer[found[newer] == NO_OFFSET])
        newer = newer[found[newer] >= x]
    sought = np.concatenate([*lost, newer])
    if len(sought):
        found[sought] = _replaced_since(view, schema, keys.take(pa.array(sought)), x)
    unchanged = sought[found[sought] == UNCHANGED]
    found[unchanged] = NO_OFFSET
    return found


UNCHANGED: Final = -2
"""Of a key that has no change at X or later. Those that are sought have no live row then, so they had none at X."""


def _replaced_since(view: TabletView, schema: TabletSchema, keys: pa.BinaryArray, x: int) -> Offsets:
    """Return what the first change of each key at X or later replaced, UNCHANGED where there is none."""
    found = np.full(len(keys), UNCHANGED, np.int64)
    blocks = view.changes(x, view.visible, pa.schema([*schema.key_fields, *SYSTEM_FIELDS]))
    for block, sought, rows in _first_of(blocks, schema, keys):
        ops, previous = (block.batch.column(name).to_numpy()[rows] for name in (OP, PREV))
        found[sought] = np.where(ops == Op.INSERT, NO_OFFSET, previous)
    return found


def scanned_offsets(view: TabletView, schema: TabletSchema, keys: pa.BinaryArray, x: int) -> Offsets:
    """Return the same without an index, which a bucket that left with its partition has no more."""
    found = np.full(len(keys), NO_OFFSET, np.int64)
    for block, sought, rows in _first_of(view.scan(x, pa.schema(schema.key_fields)), schema, keys):
        found[sought] = block.offsets[rows]
    return found


def _first_of(
    blocks: Iterable[RowBlock], schema: TabletSchema, keys: pa.BinaryArray
) -> Iterable[tuple[RowBlock, Offsets, Offsets]]:
    """Yield for each block which keys are in it for the first time, and in which rows; ends once all were seen."""
    values, missing = None, np.ones(len(keys), np.bool_)
    for block in blocks:
        first = block.batch.column(0)
        if arrow.is_integer(first.type) or arrow.is_string(first.type):
            if values is None:
                values = _first_column(schema, keys)
            some = np.flatnonzero(pc.is_in(first, values).to_numpy(zero_copy_only=False))
        else:
            some = np.arange(len(block.offsets))
        if not len(some):
            continue
        part = block.batch if len(some) == len(block.offsets) else block.batch.take(pa.array(some))
        places = pc.index_in(schema.encode_keys(part), keys).fill_null(-1).to_numpy().astype(np.int64)
        hits = np.flatnonzero(places >= 0)
        sought, at = np.unique(places[hits], return_index=True)
        new = missing[sought]
        if new.any():
            yield block, sought[new], some[hits[at[new]]]
            missing[sought] = False
            if not missing.any():
                return


def _first_column(schema: TabletSchema, keys: pa.BinaryArray) -> pa.Array:
    """Return the values of the first key column, for a look at it before keys are encoded."""
    assert schema.codec is not None
    return schema.codec.decode(keys)[0].unique()
