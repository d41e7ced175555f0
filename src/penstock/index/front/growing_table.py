"""A hash table that grows without a long stop: what it holds moves to a larger one piece by piece.

While it moves, a fingerprint is in the new table, or in the old one, or in both; then the new one counts.
The old table is only read. Every store moves some slots, in proportion to its size, so that the move is over
long before the new table is full.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from penstock.index.front.hash_table import SLOTS_MIN, UNKNOWN, HashTable, Places, Prints, slots_for, table_bytes
from penstock.index.key_index import Offsets
from penstock.model.place.change import NO_OFFSET

_NEARLY_FULL: Final = 0.55
_AT_ONCE_SLOTS: Final = 1 << 14
_PIECE_SLOTS: Final = 1 << 15
"""Slots moved at a time: what they need in between stays in the CPU's caches."""

_SLOTS_MOVED_PER_KEY: Final = 4
_SLOTS_MOVED_MIN: Final = 4_096
"""Fewer are left for a later call, for starting the array operations has its price."""


class Trace(NamedTuple):
    """The places of one call's fingerprints in a table, unless something was stored in it since."""

    table: HashTable
    stores: int
    places: Places


class GrowingTable:
    """Fingerprints, each with an offset. One thread at a time."""

    def __init__(self, words: int, slots: int = SLOTS_MIN) -> None:
        self.words = words
        self._table = HashTable(words, slots)
        self._old: HashTable | None = None
        self._old_left = 0
        self._moved_slots = 0
        self._owed_slots = 0
        self._keep_absent = True

    @property
    def nbytes(self) -> int:
        """Return the memory that the table takes, with what it grew out of."""
        return self._table.nbytes + (0 if self._old is None else self._old.nbytes)

    @property
    def is_small(self) -> bool:
        """Tell whether the table takes no memory to speak of."""
        return self._table.slots == SLOTS_MIN

    @property
    def is_nearly_full(self) -> bool:
        """Tell whether the table will soon have to grow."""
        return self.used > self._table.slots * _NEARLY_FULL

    @property
    def used(self) -> int:
        """Return how many fingerprints it holds at most."""
        return self._table.used + self._old_left

    @property
    def is_moving(self) -> bool:
        """Tell whether some of it is still in the table that it grew out of."""
        return self._old is not None

    def growth_bytes(self, count: int) -> int:
        """Return by how much the table grows for so many more."""
        return table_bytes(self.words, max(slots_for(self.used + count), self._table.slots)) - self._table.nbytes

    def reserve(self, count: int, *, keep_absent: bool) -> None:
        """Make room for so many more; unless to `keep_absent`, those that point to no row need not be kept."""
        slots = slots_for(self.used + count)
        if slots <= self._table.slots:
            return
        self.settle()
        self._old, self._table = self._table, HashTable(self.words, slots)
        self._old_left, self._moved_slots, self._owed_slots = self._old.used, 0, 0
        self._keep_absent = keep_absent
        if self._old.slots <= _AT_ONCE_SLOTS:
            self.settle()

    def find(self, prints: Prints) -> Offsets:
        """Return the offset of each fingerprint, UNKNOWN where the table has none."""
        offsets = self._table.find(prints)
        if self._old is not None:
            # A key that is removed is known (NO_OFFSET), so a stale offset in the old table never shows through.
            rest = np.flatnonzero(offsets == UNKNOWN)
            offsets[rest] = self._old.find(tuple(word[rest] for word in prints))
        return offsets

    def trace(self, prints: Prints) -> tuple[Offsets, Trace | None]:
        """Do what `find` does; with it goes where they are, for a store of the same fingerprints to come."""
        if self._old is not None:
            return self.find(prints), None
        places = self._table.locate(prints)
        return self._table.offsets_at(places), Trace(self._table, self._table.stores, places)

    def find_one(self, words: tuple[int, ...]) -> int:
        """Return the offset of one fingerprint, UNKNOWN if the table has none."""
        offset = self._table.find_one(words)
        return self._old.find_one(words) if offset == UNKNOWN and self._old is not None else offset

    def store(self, prints: Prints, offsets: Offsets, trace: Trace | None = None) -> None:
        """Point each fingerprint at its offset; there must be room."""
        known = trace is not None and trace.table is self._table and trace.stores == self._table.stores
        self._table.store(prints, offsets, places=trace.places if trace is not None and known else None)
        self._move_some(len(offsets))

    def remember(self, prints: Prints, offsets: Offsets) -> None:
        """Point each fingerprint that is not known at its offset; there must be room."""
        if self._old is not None:
            # What the old table knows is newer than what was found below, and moves here in its turn.
            new = np.flatnonzero(self._old.find(prints) == UNKNOWN)
            prints, offsets = tuple(word[new] for word in prints), offsets[new]
        self._table.store(prints, offsets, replace=False)
        self._move_some(len(offsets))

    def settle(self) -> None:
        """Move what is left to move."""
        while self._old is not None:
            self.move_piece()

    def move_piece(self, slots: int = _PIECE_SLOTS) -> None:
        """Move so many slots of the table that this one grew out of, if there are any left."""
        old = self._old
        if old is None:
            return
        end = min(self._moved_slots + slots, old.slots)
        prints, offsets = old.entries(self._moved_slots, end)
        self._old_left -= len(offsets)
        if not self._keep_absent:
            live = np.flatnonzero(offsets != NO_OFFSET)
            prints, offsets = tuple(word[live] for word in prints), offsets[live]
        self._table.store(prints, offsets, replace=False)
        self._moved_slots = end
        if end == old.slots:
            self._old = None

    def entries(self) -> tuple[Prints, Offsets]:
        """Return every fingerprint and its offset."""
        self.settle()
        return self._table.entries()

    def _move_some(self, keys: int) -> None:
        if self._old is None:
            return
        self._owed_slots += _SLOTS_MOVED_PER_KEY * keys
        while self._owed_slots >= _SLOTS_MOVED_MIN and self._old is not None:
            piece = min(self._owed_slots, _PIECE_SLOTS)
            self.move_piece(piece)
            self._owed_slots -= piece
