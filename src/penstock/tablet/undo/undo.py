"""The effect of undo on each key: a pure function of the changes since the first one to be undone.

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
    """The changes to undo: an owner's above its committed epoch from an offset on, of one attempt if not 0."""

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
    # An epoch below 0 is a change made outside any epoch: it is committed at once, so no undo ever takes it back.
    mine &= (changes.epoch >= 0) & (changes.offset >= target.start)
    if target.attempt:
        mine &= changes.attempt == target.attempt
    if not mine.any():
        return _nothing(changes.named.shape[1])
    # Keys are small dense numbers, so a table by key selects all changes of the keys that have one to undo: the
    # decision about a key needs every change of it, also those of others.
    concerned = np.zeros(int(changes.key.max()) + 1, np.bool_)
    concerned[changes.key[mine]] = True
    rows = np.flatnonzero(concerned[changes.key])
    undone = _decide(changes, rows, mine[rows], covered[rows], (~undoes & ~covered & ~mine)[rows], locked=locked)
    lacking = undone.lives & (undone.source[:, required] == NO_OFFSET).any(axis=1)
    return replace(undone, superseded=undone.superseded | lacking)


def _decide(changes: Changes, rows: Int64s, mine: Mask, covered: Mask, survives: Mask, *, locked: bool) -> Undone:
    key = changes.key[rows]
    # Changes lie by key and within a key by offset. So `reduceat` over `starts` folds key by key, `segment` is the
    # number of each change's key, and of two changes of one key the one with the greater place was made later.
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    segment = np.cumsum(np.concatenate([[True], key[1:] != key[:-1]])) - 1
    place = np.arange(len(rows))
    named, op, offset, prev = changes.named[rows], changes.op[rows], changes.offset[rows], changes.prev[rows]
    # Every key here has a change to undo, so `first` and `last` are always places. In the folds below that may find
    # nothing, -1 says "none" to a maximum and _LATE to a minimum.
    first = np.minimum.reduceat(np.where(mine, place, _LATE), starts)
    last = np.maximum.reduceat(np.where(mine, place, -1), starts)
    origin, lost = _origins(changes, rows, covered, starts, first)
    heard = survives & (place >= origin[segment])
    former = np.maximum.reduceat(np.where(heard & (place < first[segment]), place, -1), starts)
    # Where `former` is -1, `op[former]` reads some other row, but `where` throws that answer away; likewise below.
    # Without a former change the key was what the origin replaced.
    existed = np.where(former >= 0, op[former] != Op.DELETE, (prev[origin] != NO_OFFSET) & ~lost)
    survivor = np.maximum.reduceat(np.where(survives & (place > first[segment]), place, -1), starts)
    lives = np.where(survivor >= 0, op[survivor] != Op.DELETE, existed)
    columns = np.logical_or.reduceat(named & mine[:, None], starts, axis=0)
    superseded = np.zeros(len(starts), np.bool_)
    if not locked:
        # Without locks another owner may have written the same columns since. Its change wins, and the whole key is
        # left alone: otherwise the row would be a mix that no writer made.
        newer = survives & (place > last[segment]) & (named & columns[segment]).any(axis=1)
        superseded = np.logical_or.reduceat(newer, starts)
    source = np.full(columns.shape, KEEP, np.int64)
    # The loop is over columns, which are few; each step decides all keys at once.
    for column in np.flatnonzero(columns.any(axis=0)):
        names = named[:, column]
        began = np.minimum.reduceat(np.where(mine & names, place, _LATE), starts)
        touched = began != _LATE
        # _LATE is no index. Place 0 stands in for it; what comes out for keys that are not touched is not stored.
        began = np.where(touched, began, 0)
        # This may also find a change before `began`; then it is not newer, and the comparison at `value` leaves it
        # out.
        newer_place = np.maximum.reduceat(np.where(survives & names, place, -1), starts)
        theirs = np.where(op[newer_place] == Op.DELETE, NO_OFFSET, offset[newer_place])
        earlier = np.maximum.reduceat(np.where(heard & names & (place < began[segment]), place, -1), starts)
        before = np.where(earlier >= 0, np.where(op[earlier] == Op.DELETE, NO_OFFSET, offset[earlier]), prev[origin])
        # Every row in the log is a whole image. Where no other undo took anything back below `first`, the row that
        # the change replaced has the column's value; otherwise that image may hold undone values, and only the
        # changes heard count.
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
        # An origin that moves back may bring further undoes and further taken changes into sight, so this goes on
        # until nothing moves. It ends: an origin only ever gets lower.
        before, later = origin, undoes & (place > origin[segment])
        for their_owner, their_attempt in sorted(set(zip(owner[later].tolist(), attempt[later].tolist(), strict=True))):
            marks = later & (owner == their_owner) & (attempt == their_attempt)
            last = np.maximum.reduceat(np.where(marks, place, -1), starts)
            # An undo without an attempt (0) takes back all attempts of its owner.
            taken = (
                covered
                & (owner == their_owner)
                & ((attempt == their_attempt) | (their_attempt == 0))
                & (place < last[segment])
            )
            began = np.minimum.reduceat(np.where(taken, place, _LATE), starts)
            origin = np.minimum(origin, began)
            orphans = np.logical_or.reduceat(marks & (kind == BatchKind.ORPHAN), starts)
            # An orphan whose undone changes are gone from the log: only the orphan mark still says that the key was
            # absent before.
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
    # `lexsort` sorts by its last key first, hence the reversal: by the group's parts, then by offset.
    order = np.lexsort((changes.offset, *reversed(group)))
    count = len(order)
    edges = np.zeros(count, np.bool_)
    for part in group:
        ordered = part[order]
        edges[1:] |= ordered[1:] != ordered[:-1]
    segment = np.cumsum(edges)
    # `count` says "no undo here"; a minimum from the right then gives each change the next undo at or after it, which
    # may lie in another group and is checked below.
    place = np.where(undoes[order], np.arange(count), count)
    # Committed epochs only grow, so the next undo has the lowest of all later ones.
    following = np.minimum.accumulate(place[::-1])[::-1]
    there = following < count
    # `count` is one beyond the arrays; 0 stands in for it, and `there` rules these out.
    following = np.where(there, following, 0)
    epoch = changes.epoch[order]
    hit = there & (segment[following] == segment) & (epoch[following] < epoch) & ~undoes[order]
    covered = np.empty(count, np.bool_)
    covered[order] = hit
    return covered


def _nothing(columns: int) -> Undone:
    none, no = np.empty(0, np.int64), np.empty(0, np.bool_)
    return Undone(none, none, no, no, no, np.empty((0, columns), np.int64))
