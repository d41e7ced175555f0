"""Calls that are planned together, and yet each a change of its own: folded in rounds.

Rows are never folded across calls. The header of each batch in the log says whose call it holds, and a
crash may keep the first of two and lose the second, whose retry must then find nothing of itself there.

Rows of several calls, one call after the other, are cut into slots: the rows of one key in one call.
The first slot of every key is of round 0 and meets the stored row; the second is of round 1 and meets
what round 0 made of it, and so on. Within a round no key occurs twice, so a round is one fold of
arrays. Calls that share no key need one round, however many they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.tablet.merge.aggregates.segments import Rows, Segments
from penstock.tablet.merge.key_groups import KeyGroups


@dataclass(frozen=True, slots=True)
class Round:
    """The slots of one round by key: their rows, the number of each one's key, and of its call."""

    segments: Segments
    keys: Rows
    calls: Rows


@dataclass(frozen=True, slots=True)
class Arranged:
    """The slots of all rounds as they enter the log: call after call.

    `places` are their places among the slots of all rounds, `groups` groups them by key.
    """

    places: Rows
    groups: KeyGroups


def rounds_of(groups: KeyGroups, calls: Rows) -> list[Round]:
    """Cut grouped rows into rounds; `calls` has the number of each row's call, as the rows came."""
    call = calls[groups.order]
    first = groups.starts.copy()
    # Rows of a key come as they came, and calls ascend, so a slot begins where the key or the call changes.
    first[1:] |= call[1:] != call[:-1]
    starts = np.flatnonzero(first)
    lengths = np.diff(starts, append=len(call))
    keys = groups.group[starts]
    begins = np.flatnonzero(groups.starts[starts])
    # How many slots of the same key come before: the slot's position less that of the key's first slot.
    turn = np.arange(len(starts)) - np.repeat(begins, np.diff(begins, append=len(starts)))
    rounds = []
    for number in range(int(turn.max()) + 1):
        slots = np.flatnonzero(turn == number)
        chosen = np.repeat(turn == number, lengths)
        order = groups.order[chosen]
        segments = Segments(len(order), order, np.cumsum(lengths[slots]) - lengths[slots])
        rounds.append(Round(segments, keys[slots], call[starts[slots]]))
    return rounds


def arrange(rounds: Sequence[Round], groups: KeyGroups) -> Arranged:
    """Return the slots of all rounds in the order of the calls."""
    keys = np.concatenate([one.keys for one in rounds])
    turns = np.repeat(np.arange(len(rounds)), [len(one.keys) for one in rounds])
    # A call has one slot of a key at most, and a key's calls ascend from round to round: so the order by call keeps
    # the order of each key's changes.
    places = np.argsort(np.concatenate([one.calls for one in rounds]), kind="stable")
    position = np.empty(len(places), np.int64)
    position[places] = np.arange(len(places))
    by_key = np.lexsort((turns, keys))
    # Every key has a slot in round 0, and `lexsort` puts it first among those of its key.
    starts = turns[by_key] == 0
    return Arranged(places, KeyGroups(position[by_key], starts, keys[by_key], groups.live))
