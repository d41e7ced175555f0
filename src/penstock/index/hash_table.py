"""Fingerprint to offset in memory: open addressing over NumPy columns, a whole batch of keys at a time.

The top bits of a fingerprint's first word say where its path starts; from there it goes on in steps of
1, 2, 3, ..., which visits every slot of a table whose size is a power of two. A path ends at the
fingerprint or at the first empty slot. Nothing is ever taken out: a removed key stays, pointing to -1,
until the table is made anew.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.index.key_index import Offsets
from penstock.model.change import NO_OFFSET

Words = npt.NDArray[np.uint64]
Prints = tuple[Words, ...]
"""The fingerprints of some keys, word by word."""

UNKNOWN: Final = -2
"""What an empty slot points to: the table says nothing about the key."""

SLOTS_MIN: Final = 64
_FULL: Final = 0.7
_NEARLY_FULL: Final = 0.55
_WORD_BITS: Final = 64
_FEW: Final = 8
"""The last paths of a batch are walked one by one: that costs less than an array operation for each step."""

_REHASH_SLOTS: Final = 1 << 16
"""Slots moved at a time: what they need in between stays in the CPU's caches."""


class HashTable:
    """Fingerprints of one or two words, each with an offset. One thread at a time."""

    def __init__(self, words: int, slots: int = SLOTS_MIN) -> None:
        assert slots >= SLOTS_MIN
        assert slots & (slots - 1) == 0
        self.used = 0
        self._shift = np.uint64(_WORD_BITS - slots.bit_length() + 1)
        self._words = tuple(np.zeros(slots, np.uint64) for _ in range(words))
        self._offsets = np.full(slots, UNKNOWN, np.int64)

    @property
    def words(self) -> int:
        """Return the number of words of a fingerprint."""
        return len(self._words)

    @property
    def slots(self) -> int:
        """Return the number of slots."""
        return len(self._offsets)

    @property
    def is_nearly_full(self) -> bool:
        """Tell whether the table will soon have to grow."""
        return self.used > self.slots * _NEARLY_FULL

    @property
    def nbytes(self) -> int:
        """Return the memory that the table takes."""
        return table_bytes(self.words, self.slots)

    def find(self, prints: Prints) -> Offsets:
        """Return the offset of each fingerprint, UNKNOWN where the table has none."""
        found: Offsets = self._offsets[self._locate(prints)]
        return found

    def find_one(self, words: tuple[int, ...]) -> int:
        """Return the offset of one fingerprint, UNKNOWN if the table has none."""
        return int(self._offsets[self._walk(words, words[0] >> int(self._shift), 0)])

    def store(self, prints: Prints, offsets: Offsets, *, replace: bool = True) -> None:
        """Point each fingerprint at its offset; those held already only to `replace` them.

        There must be room. A fingerprint that comes twice comes with the same offset.
        """
        places = self._locate(prints)
        fresh = self._offsets[places] == UNKNOWN
        if replace:
            held = ~fresh
            self._offsets[places[held]] = offsets[held]
        left = np.flatnonzero(fresh)
        while left.size:
            at, mine = places[left], tuple(word[left] for word in prints)
            for column, word in zip(self._words, mine, strict=True):
                column[at] = word
            # Of several that claim one empty slot the last has it; the others walk on past it.
            won = self._holds(mine, at)
            self._offsets[at[won]] = offsets[left[won]]
            self.used += int(np.count_nonzero(won))
            left = left[~won]
            places[left] = self._locate(tuple(word[left] for word in prints))

    def grown(self, slots: int, *, keep_absent: bool) -> HashTable:
        """Return a larger table of the same fingerprints, or only of those that point to a row."""
        table = HashTable(self.words, slots)
        least = UNKNOWN if keep_absent else NO_OFFSET
        for start in range(0, self.slots, _REHASH_SLOTS):
            piece = slice(start, start + _REHASH_SLOTS)
            some = np.flatnonzero(self._offsets[piece] > least)
            table.store(tuple(column[piece][some] for column in self._words), self._offsets[piece][some])
        return table

    def entries(self) -> tuple[Prints, Offsets]:
        """Return every fingerprint and its offset."""
        some = np.flatnonzero(self._offsets != UNKNOWN)
        return tuple(column[some] for column in self._words), self._offsets[some]

    def _locate(self, prints: Prints) -> npt.NDArray[np.int64]:
        """Return where each fingerprint is held, or the empty slot where it would be."""
        places = (prints[0] >> self._shift).view(np.int64)
        left, at, mine = np.arange(len(places)), places, prints
        mask, step = self.slots - 1, 0
        while True:
            on = np.flatnonzero((self._offsets[at] != UNKNOWN) & ~self._holds(mine, at))
            left, mine = left[on], tuple(word[on] for word in mine)
            if left.size <= _FEW:
                break
            step += 1
            at = (at[on] + step) & mask
            places[left] = at
        for row, *words in zip(left.tolist(), *(word.tolist() for word in mine), strict=True):
            places[row] = self._walk(tuple(words), int(places[row]), step)
        return places

    def _walk(self, words: tuple[int, ...], place: int, step: int) -> int:
        mask = self.slots - 1
        while self._offsets[place] != UNKNOWN and not all(
            column[place] == word for column, word in zip(self._words, words, strict=True)
        ):
            step += 1
            place = (place + step) & mask
        return place

    def _holds(self, prints: Prints, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        same: npt.NDArray[np.bool_] = self._words[0][places] == prints[0]
        for column, word in zip(self._words[1:], prints[1:], strict=True):
            same &= column[places] == word
        return same


def slots_for(entries: int) -> int:
    """Return the smallest number of slots that holds so many entries with short paths."""
    slots = SLOTS_MIN
    while entries > slots * _FULL:
        slots *= 2
    return slots


def table_bytes(words: int, slots: int) -> int:
    """Return the memory that a table takes."""
    return (words + 1) * 8 * slots
