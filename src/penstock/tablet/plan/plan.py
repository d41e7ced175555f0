"""The write plan: what a request changes, as a pure function of the request and the rows it meets.

The rows of one request are applied in order; a key that occurs twice chains: the later change
replaces the earlier one. Offsets are given to changes in row order from `base_offset` on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.place.change import NO_OFFSET, Op
from penstock.tablet.merge.key_groups import KeyGroups
from penstock.tablet.merge.rule import Fetch, Mask, Merged, MergeRule, Offsets, Request, complete, live_before
from penstock.tablet.schema import TabletSchema


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of one request.

    `batch` has the rows to store, from `base_offset` on. The rows at `ended` end at `ended_at`
    (a delete's own row ends at once). The distinct keys of `index_keys` point to `index_offsets`
    afterwards, -1 where the key is gone. `kept` tells which merged rows became changes, `folded` how
    many rows of the request each stands for (None: one), `calls` with which call each came (None: as
    the request has it).
    """

    base_offset: int
    batch: pa.RecordBatch
    ended: Offsets
    ended_at: Offsets
    index_keys: pa.BinaryArray
    index_offsets: Offsets
    kept: Mask
    folded: Offsets | None = None
    calls: Offsets | None = None

    @property
    def end_offset(self) -> int:
        """Return the offset after the last change."""
        return self.base_offset + int(self.batch.num_rows)


def plan_request(
    request: Request,
    groups: KeyGroups,
    distinct: pa.BinaryArray,
    *,
    rule: MergeRule,
    fetch: Fetch,
    schema: TabletSchema,
    base_offset: int,
) -> Plan:
    """Return what the request changes."""
    user_columns = schema.user_columns
    if request.only_checked:
        return _no_plan(request, schema, base_offset)
    if request.exact or (request.deletes is not None and request.deletes.all()):
        merged = Merged(complete(request.rows, user_columns), groups, request.deletes)
    else:
        merged = rule.merge(request, groups, fetch, user_columns)
    if merged.deletes is None and merged.accept is None and merged.groups.distinct:
        return _plain_plan(merged, distinct, schema, base_offset)
    kept, alive = _kept(merged)
    # A kept row has the next free offset. A row that is not kept repeats the offset of the kept row before it; every
    # use below selects kept rows only.
    offsets = base_offset + np.cumsum(kept) - 1
    prev = _prev(merged.groups, kept, alive, offsets)
    ops = np.where(alive, np.int8(Op.UPDATE), np.int8(Op.INSERT))
    if merged.deletes is not None:
        ops[merged.deletes] = Op.DELETE
    images = merged.images if kept.all() else merged.images.filter(pa.array(kept))
    prev_kept, ops_kept = prev[kept], ops[kept]
    batch = pa.RecordBatch.from_arrays(
        [*images.columns, pa.array(ops_kept, pa.int8()), pa.array(prev_kept, pa.int64())], schema=schema.storage
    )
    ended, ended_at = _ended(prev_kept, ops_kept, base_offset)
    touched, index_offsets = _index_writes(merged, kept, offsets)
    index_keys = distinct if touched.all() else distinct.filter(pa.array(touched))
    return Plan(base_offset, batch, ended, ended_at, index_keys, index_offsets, kept, merged.folded, merged.calls)


def _no_plan(request: Request, schema: TabletSchema, base_offset: int) -> Plan:
    """Return the plan of rows that change nothing."""
    none = np.empty(0, np.int64)
    kept = np.zeros(request.rows.num_rows, np.bool_)
    batch = pa.RecordBatch.from_pylist([], schema=schema.storage)
    return Plan(base_offset, batch, none, none, pa.array([], pa.binary()), none, kept)


def _plain_plan(merged: Merged, distinct: pa.BinaryArray, schema: TabletSchema, base_offset: int) -> Plan:
    """Return the plan of rows that all are changes, each of another key: as nearly every batch comes."""
    groups, count = merged.groups, len(merged.groups.order)
    offsets = np.arange(base_offset, base_offset + count, dtype=np.int64)
    prev, index_offsets = groups.live, offsets
    if not groups.as_they_came:
        # `live` is by sorted key, rows are as they came: `order` leads from the first to the second, and writing
        # through it is the inverse permutation without another sort.
        prev, index_offsets = np.empty(count, np.int64), offsets[groups.order]
        prev[groups.order] = groups.live
    replaces = prev >= 0
    ops = np.where(replaces, np.int8(Op.UPDATE), np.int8(Op.INSERT))
    batch = pa.RecordBatch.from_arrays([*merged.images.columns, pa.array(ops), pa.array(prev)], schema=schema.storage)
    ended, ended_at, every = prev, offsets, np.ones(count, np.bool_)
    if not replaces.all():
        ended, ended_at = prev[replaces], offsets[replaces]
    folded, calls = merged.folded, merged.calls
    return Plan(base_offset, batch, ended, ended_at, distinct, index_offsets, every, folded, calls)


def _kept(merged: Merged) -> tuple[Mask, Mask]:
    """Tell which rows are changes, and which of all rows meet a live key."""
    alive = live_before(merged.groups, merged.deletes)
    kept = np.ones(len(alive), np.bool_) if merged.accept is None else merged.accept.copy()
    if merged.deletes is not None:
        # A delete of an absent key changes nothing.
        kept &= ~merged.deletes | alive
    return kept, alive


def _prev(groups: KeyGroups, kept: Mask, alive: Mask, offsets: Offsets) -> Offsets:
    """Return the offset that each row replaces: the last change of its key, here or stored."""
    prev = groups.live[groups.group]
    if not groups.starts.all():
        # Below, `place` is a position in key order, where rows of a key lie together as they came.
        place = np.arange(len(groups.order))
        ordered_kept = kept[groups.order]
        # A running maximum over positions finds the last kept row up to each row; shifted by one, the last before it.
        # It runs across keys, so a hit below the start of the row's own key belongs to another key and does not
        # count.
        latest = np.maximum.accumulate(np.where(ordered_kept, place, -1))
        before = np.empty_like(latest)
        before[0], before[1:] = -1, latest[:-1]
        group_start = np.maximum.accumulate(np.where(groups.starts, place, 0))
        # Where no row of this request was kept before, the replaced row is the stored one that `prev` has already.
        here = before >= group_start
        prev = np.where(here, offsets[groups.order][np.maximum(before, 0)], prev)
    result = np.empty(len(prev), np.int64)
    result[groups.order] = prev
    return np.where(alive, result, NO_OFFSET)


def _ended(prev: Offsets, ops: npt.NDArray[np.int8], base_offset: int) -> tuple[Offsets, Offsets]:
    """Return which rows end and where: those replaced, and every delete's own row."""
    # Only kept rows get here, so their offsets follow each other without a gap.
    offsets = np.arange(base_offset, base_offset + len(prev), dtype=np.int64)
    replaces, deletes = prev >= 0, ops == Op.DELETE
    if not deletes.any():
        return prev[replaces], offsets[replaces]
    return (
        np.concatenate([prev[replaces], offsets[deletes]]),
        np.concatenate([offsets[replaces], offsets[deletes]]),
    )


def _index_writes(merged: Merged, kept: Mask, offsets: Offsets) -> tuple[Mask, Offsets]:
    """Tell which keys changed, and the offset of each one's last change, -1 for a delete."""
    groups = merged.groups
    ordered_kept = kept[groups.order]
    group = groups.group[ordered_kept]
    rows = groups.order[ordered_kept]
    touched = np.zeros(groups.count, np.bool_)
    touched[group] = True
    last = np.empty(groups.count, np.int64)
    last[group] = rows  # rows of a key ascend, so the last assignment is its last change
    final = last[touched]
    index_offsets = offsets[final]
    if merged.deletes is not None:
        index_offsets = np.where(merged.deletes[final], NO_OFFSET, index_offsets)
    return touched, index_offsets
