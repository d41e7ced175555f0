"""What undo does to each key: a pure function of the changes since the first one to be undone.

Undo makes a bucket what it would be if some changes had never been made, and no others were
touched. All of it follows from the log:

- A change is *undone* if a later undo of its owner met the same key, written when the owner's last
  committed epoch was below the change's. An undo of one attempt covers that attempt's changes only.
- A column that the changes to undo name returns to the value it had just before the first of them
  that names it; unless another change, one that survives, has named it since: then to that one's.
- A key lives on afterwards as the last surviving change after the first undone one left it; without
  one, as it was before.
- What was before is asked of the changes that count now. Another undo may have taken back, since then, what the
  first change stood on: a row made or deleted by another owner's epoch. So the key's *origin* is the first change
  that such an undo took back; from there on only surviving changes are heard.
- A row that an undo kept only for others' sake is written as an *orphan*. In logs that no longer have what
  that undo took back, it says that the key did not exist before.
- A row without a value where one is required must not be. Where an undo would leave one, the key is left
  alone. With locks no owner writes a row that another's epoch may take back so, but in older logs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.model.place.change import NO_OFFSET, BatchKind, Op

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Masks = npt.NDArray[np.bool_]

KEEP: Final = -2
"""The source of a column that keeps its present value; NO_OFFSET (-1) is the source of a null."""
_LATE: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of some keys, by key and within a key by offset.

    `key`, `attempt` (0: none) and `named` (changes x columns: which columns a change writes; a delete
    all) are small numbers of the caller's choice; the rest is as the log has it.
    """

    key: Int64s
    offset: Int64s
    op: Int64s
    prev: Int64s
    owner: Int64s
    epoch: Int64s
    kind: Int64s
    attempt: Int64s
    named: Masks


@dataclass(frozen=True, slots=True)
class Target:
    """Whose changes are undone: an owner's above its committed epoch from an offset on, of one attempt if not 0."""

    owner: int
    committed: int
    attempt: int = 0
    start: int = 0


@dataclass(frozen=True, slots=True)
class Undone:
    """The keys that undo concerns, ascending, and what becomes of each.

    `first` is the place of the first change undone. `source` (keys x columns) is the offset whose row
    has the value of a column afterwards, or KEEP. `superseded` keys are left alone.
    """

    key: Int64s
    first: Int64s
    lives: Mask
    orphan: Mask
    superseded: Mask
    source: npt.NDArray[np.int64]


def find_undone(changes: Changes, target: Target, *, locked: bool, required: Mask) -> Undone:
    """Return what undoing the target's changes does; without locks newer changes of others win whole keys.

    `required` tells of each column whether it is never null.
    """
    undoes = np.isin(changes.kind, (BatchKind.UNDO, BatchKind.ORPHAN))
    covered = _covered(changes, undoes)
    mine = ~undoes & ~covered & (changes.owner == target.owner) & (changes.epoch > target.committed)
    mine &= (changes.epoch >= 0) & (changes.offset >= target.start)
    if target.attempt:
        mine &= changes.attempt == target.attempt
    if not mine.any():
        return _nothing(changes.named.shape[1])
    concerned = np.zeros(int(changes.key.max()) + 1, np.bool_)
    concerned[changes.key[mine]] = True
    rows = np.flatnonzero(concerned[changes.key])
    undone = _decide(changes, rows, mine[rows], covered[rows], (~undoes & ~covered & ~mine)[rows], locked=locked)
    lacking = undone.lives & (undone.source[:, required] == NO_OFFSET).any(axis=1)
    return replace(undone, superseded=undone.superseded | lacking)


def _decide(changes: Changes, rows: Int64s, mine: Mask, covered: Mask, survives: Mask, *, locked: bool) -> Undone:
    key = changes.key[rows]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    segment = np.cumsum(np.concatenate([[True], key[1:] != key[:-1]])) - 1
    place = np.arange(len(rows))
    named, op, offset, prev = changes.named[rows], changes.op[rows], changes.offset[rows], changes.prev[rows]
    first = np.minimum.reduceat(np.where(mine, place, _LATE), starts)
    last = np.maximum.reduceat(np.where(mine, place, -1), starts)
    origin, lost = _origins(changes, rows, covered, starts, first)
    heard = survives & (place >= origin[segment])
    former = np.maximum.reduceat(np.where(heard & (place < first[segment]), place, -1), starts)
    existed = np.where(former >= 0, op[former] != Op.DELETE, (prev[origin] != NO_OFFSET) & ~lost)
    survivor = np.maximum.reduceat(np.where(survives & (place > first[segment]), place, -1), starts)
    lives = np.where(survivor >= 0, op[survivor] != Op.DELETE, existed)
    columns = np.logical_or.reduceat(named & mine[:, None], starts, axis=0)
    superseded = np.zeros(len(starts), np.bool_)
    if not locked:
        newer = survives & (place > last[segment]) & (named & columns[segment]).any(axis=1)
        superseded = np.logical_or.reduceat(newer, starts)
    source = np.full(columns.shape, KEEP, np.int64)
    for column in np.flatnonzero(columns.any(axis=0)):
        names = named[:, column]
        began = np.minimum.reduceat(np.where(mine & names, place, _LATE), starts)
        touched = began != _LATE
        began = np.where(touched, began, 0)
        newer_place = np.maximum.reduceat(np.where(survives & names, place, -1), starts)
        theirs = np.where(op[newer_place] == Op.DELETE, NO_OFFSET, offset[newer_place])
        earlier = np.maximum.reduceat(np.where(heard & names & (place < began[segment]), place, -1), starts)
        before = np.where(earlier >= 0, np.where(op[earlier] == Op.DELETE, NO_OFFSET, offset[earlier]), prev[origin])
        before = np.where(origin < first, before, prev[began])
        value = np.where(newer_place > began, theirs, before)
        source[touched, column] = value[touched]
    return Undone(key[starts], rows[first], lives, lives & ~existed, superseded, source)


def _origins(changes: Changes, rows: Int64s, covered: Mask, starts: Int64s, first: Int64s) -> tuple[Int64s, Mask]:
    """Return the origin of each key, and which keys have lost it: the log no longer has what an orphan stood on."""
    kind, owner, attempt, place = changes.kind[rows], changes.owner[rows], changes.attempt[rows], np.arange(len(rows))
    segment = np.repeat(np.arange(len(starts)), np.diff([*starts, len(rows)]))
    undoes = np.isin(kind, (BatchKind.UNDO, BatchKind.ORPHAN))
    origin, lost = first, np.zeros(len(starts), np.bool_)
    while True:
        before, later = origin, undoes & (place > origin[segment])
        for who, which in sorted(set(zip(owner[later].tolist(), attempt[later].tolist(), strict=True))):
            marks = later & (owner == who) & (attempt == which)
            last = np.maximum.reduceat(np.where(marks, place, -1), starts)
            taken = covered & (owner == who) & ((attempt == which) | (which == 0)) & (place < last[segment])
            began = np.minimum.reduceat(np.where(taken, place, _LATE), starts)
            origin = np.minimum(origin, began)
            orphans = np.logical_or.reduceat(marks & (kind == BatchKind.ORPHAN), starts)
            lost = lost | (orphans & (began == _LATE))
        if np.array_equal(before, origin):
            return origin, lost


def _covered(changes: Changes, undoes: Mask) -> Mask:
    """Tell which changes were undone before, by an undo of their owner or of their attempt."""
    whole = undoes & (changes.attempt == 0)
    covered = _covered_by(changes, whole, (changes.key, changes.owner))
    if (undoes & ~whole).any():
        covered |= _covered_by(changes, undoes & ~whole, (changes.key, changes.owner, changes.attempt))
    return covered & (changes.owner >= 0) & (changes.epoch >= 0)


def _covered_by(changes: Changes, undoes: Mask, group: tuple[Int64s, ...]) -> Mask:
    """Tell which changes have a later undo in their group, made when less than their epoch was committed."""
    order = np.lexsort((changes.offset, *reversed(group)))
    count = len(order)
    edges = np.zeros(count, np.bool_)
    for part in group:
        ordered = part[order]
        edges[1:] |= ordered[1:] != ordered[:-1]
    segment = np.cumsum(edges)
    place = np.where(undoes[order], np.arange(count), count)
    # Committed epochs only grow, so the next undo has the lowest of all later ones.
    following = np.minimum.accumulate(place[::-1])[::-1]
    there = following < count
    following = np.where(there, following, 0)
    epoch = changes.epoch[order]
    hit = there & (segment[following] == segment) & (epoch[following] < epoch) & ~undoes[order]
    covered = np.empty(count, np.bool_)
    covered[order] = hit
    return covered


def _nothing(columns: int) -> Undone:
    none, no = np.empty(0, np.int64), np.empty(0, np.bool_)
    return Undone(none, none, no, no, no, np.empty((0, columns), np.int64))
