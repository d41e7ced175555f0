"""Fingerprint to offset in memory: open addressing over NumPy columns, a whole batch of keys at a time.

The top bits of a fingerprint's first word say where its path starts; from there it goes on in steps of
1, 2, 3, ..., which visits every slot of a table whose size is a power of two. A path ends at the
fingerprint or at the first empty slot. Nothing is ever taken out: a removed key stays, pointing to -1,
until the table is made anew.

A slot is a row of one array: the words of the fingerprint and what it points to, so that all of it is
met in one line of the CPU's caches. What it points to is kept as offset - UNKNOWN: then an empty slot is
all zero, and a large table costs nothing before it is filled.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.index.key_index import Offsets

Words = npt.NDArray[np.uint64]
Prints = tuple[Words, ...]
"""The fingerprints of some keys, word by word."""

UNKNOWN: Final = -2
"""What an empty slot points to: the table says nothing about the key."""

SLOTS_MIN: Final = 64
_FULL: Final = 0.7
_WORD_BITS: Final = 64
_FEW: Final = 8
"""The last paths of a batch are walked one by one: that costs less than an array operation for each step."""

Places = npt.NDArray[np.int64]


class HashTable:
    """Fingerprints of one or two words, each with an offset. One thread at a time."""

    def __init__(self, words: int, slots: int = SLOTS_MIN) -> None:
        assert slots >= SLOTS_MIN
        assert slots & (slots - 1) == 0
        self.used = 0
        self.stores = 0
        """How often something was stored: places that were found hold until the next time."""
        self.words = words
        self.slots = slots
        self._shift = _WORD_BITS - slots.bit_length() + 1
        self._cells = np.zeros((slots, words + 1), np.uint64)
        self._words = tuple(self._cells[:, word] for word in range(words))
        self._held = self._cells[:, words].view(np.int64)
        # Python reads single numbers from a view of bare memory at a third of what NumPy takes.
        self._plain = self._cells.reshape(-1).data

    @property
    def nbytes(self) -> int:
        """Return the memory that the table takes."""
        return table_bytes(self.words, self.slots)

    def find(self, prints: Prints) -> Offsets:
        """Return the offset of each fingerprint, UNKNOWN where the table has none."""
        return self.offsets_at(self.locate(prints))

    def offsets_at(self, places: Places) -> Offsets:
        """Return the offsets in these slots, UNKNOWN in an empty one."""
        found: Offsets = self._held[places]
        found += UNKNOWN
        return found

    def find_one(self, words: tuple[int, ...]) -> int:
        """Return the offset of one fingerprint, UNKNOWN if the table has none."""
        return self._plain[self._walk(words, words[0] >> self._shift, 0) * (self.words + 1) + self.words] + UNKNOWN

    def store(self, prints: Prints, offsets: Offsets, *, replace: bool = True, places: Places | None = None) -> None:
        """Point each fingerprint at its offset; those held already only to `replace` them.

        There must be room. A fingerprint that comes twice comes with the same offset. `places` is what
        `locate` gave, if nothing was stored since; it is used up.
        """
        self.stores += 1
        # Offsets are kept with UNKNOWN taken off, so 0 means an empty slot; a removed key (-1) is kept as 1 and is
        # not empty.
        places, values = self.locate(prints) if places is None else places, offsets - UNKNOWN
        left = np.flatnonzero(self._held[places] == 0)
        if replace and left.size < len(places):
            known = np.ones(len(places), np.bool_)
            known[left] = False
            self._held[places[known]] = values[known]
        while left.size:
            at, mine = places[left], tuple(word[left] for word in prints)
            for column, word in zip(self._words, mine, strict=True):
                column[at] = word
            # Of several that claim one empty slot the last has it; the others walk on past it.
            lost = self._differs(mine, at)
            won = left[~lost]
            self._held[places[won]] = values[won]
            self.used += len(won)
            left = left[lost]
            places[left] = self.locate(tuple(word[left] for word in prints))

    def entries(self, start: int = 0, end: int | None = None) -> tuple[Prints, Offsets]:
        """Return every fingerprint and its offset, or those in a range of slots."""
        held = self._held[start:end]
        some = np.flatnonzero(held)
        return tuple(column[start:end][some] for column in self._words), held[some] + UNKNOWN

    def locate(self, prints: Prints) -> Places:
        """Return where each fingerprint is held, or the empty slot where it would be."""
        # The top bits, for these are mixed best by the multiplications that make a fingerprint.
        places: Places = (prints[0] >> np.uint64(self._shift)).view(np.int64)
        on, step = self._taken(prints, places), 0
        while on.size > _FEW:
            step += 1
            # All paths that go on are at the same step, so one number serves all; the slots are a power of two, and
            # the mask is the remainder.
            at = (places[on] + step) & (self.slots - 1)
            places[on] = at
            on = on[self._taken(tuple(word[on] for word in prints), at)]
        for row in on.tolist():
            places[row] = self._walk(tuple(int(word[row]) for word in prints), int(places[row]), step)
        return places

    def _taken(self, prints: Prints, places: Places) -> Places:
        """Return which of the fingerprints find another one in their place; an empty slot is anyone's."""
        on = np.flatnonzero(self._differs(prints, places))
        taken: Places = on[self._held[places[on]] != 0]
        return taken

    def _differs(self, prints: Prints, places: Places) -> npt.NDArray[np.bool_]:
        differs: npt.NDArray[np.bool_] = self._words[0][places] != prints[0]
        for column, word in zip(self._words[1:], prints[1:], strict=True):
            differs |= column[places] != word
        return differs

    def _walk(self, words: tuple[int, ...], place: int, step: int) -> int:
        plain, count, mask = self._plain, self.words, self.slots - 1
        while True:
            at = place * (count + 1)
            if plain[at] == words[0] and (count == 1 or plain[at + 1] == words[1]):
                return place
            if not plain[at + count]:
                return place
            step += 1
            place = (place + step) & mask


def slots_for(entries: int) -> int:
    """Return the smallest number of slots that holds so many entries with short paths."""
    slots = SLOTS_MIN
    while entries > slots * _FULL:
        slots *= 2
    return slots


def table_bytes(words: int, slots: int) -> int:
    """Return the memory that a table takes."""
    return (words + 1) * 8 * slots
