"""The order of a batch of keys: a stable sort, quick on what batches are like.

Keys of one batch mostly share their first bytes and differ in the few that follow. So the
bytes common to all are skipped and the next words are sorted by a radix sort of 16-bit digits
(NumPy's stable sort of uint16 is one); each round looks only at the keys still tied after the
round before. What two rounds leave tied goes to Arrow, whose sort is stable too. Keys all of
one width that is an integer's, as most are, are sorted and compared as integers throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import ne
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec.keys.byte_rows import WORD_BYTES, ByteRows, Ints, Words

DIGIT_BITS: Final = 16
WHOLE_WIDTHS: Final = (1, 2, 4, 8)
"""Keys all of one such width are integers, and are sorted as integers."""

FEW_KEYS: Final = 64
"""So few keys are sorted one by one: the first array operation of the other way takes longer."""

KEPT: Final = np.array(
    [(1 << 64) - (1 << 8 * (WORD_BYTES - k)) for k in range(WORD_BYTES)] + [(1 << 64) - 1] * 2, np.uint64
)
"""The part of a big-endian word that belongs to a key with k bytes left; k is at most one more than a word."""

_BINARY: Final = pa.binary().id

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """Keys in memcmp order; equal keys stay in the order in which they came.

    `order` gives the row of each sorted key, `starts` marks the first of each run of equal keys.
    `wholes` has the keys as big-endian integers, if they are of such a width.
    """

    keys: pa.BinaryArray
    order: Ints
    starts: Flags
    wholes: npt.NDArray[Any] | None = None

    @property
    def distinct(self) -> bool:
        """Tell whether no key occurs twice."""
        return bool(self.starts.all())

    def where(self, mask: Flags) -> pa.BinaryArray:
        """Return the sorted keys that the mask holds for."""
        if mask.all():
            return self.keys
        return self.keys.filter(pa.array(mask)) if self.wholes is None else _binary(self.wholes[mask])


def sort_keys(keys: pa.BinaryArray) -> SortedKeys:
    """Sort the keys."""
    assert keys.null_count == 0
    if len(keys) <= FEW_KEYS:
        return _sort_few(keys)
    wholes = _wholes(keys)
    if wholes is not None:
        return _sort_wholes(keys, wholes)
    # Batches often come sorted, and a check is far cheaper than a sort.
    order = np.arange(len(keys))
    if len(keys) > 1 and not pc.all(pc.less_equal(keys[:-1], keys[1:])).as_py():
        order = _stable_order(keys)
        keys = keys.take(pa.array(order))
    return SortedKeys(keys, order, _starts(keys))


def _sort_few(keys: pa.BinaryArray) -> SortedKeys:
    values: list[bytes] = keys.to_pylist()
    order = sorted(range(len(values)), key=values.__getitem__)
    ordered = [values[row] for row in order]
    starts = [True] * len(ordered)
    starts[1:] = map(ne, ordered[1:], ordered)
    if ordered != values:
        keys = pa.array(ordered, keys.type)
    return SortedKeys(keys, np.array(order, np.int64), np.array(starts, np.bool_))


def _wholes(keys: pa.BinaryArray) -> npt.NDArray[Any] | None:
    """Return keys that are all of an integer's width as big-endian integers, None of others; there is one at least."""
    if keys.type.id != _BINARY:
        return None
    _, bounds, data = keys.buffers()
    ends = np.frombuffer(bounds, np.int32, len(keys) + 1, 4 * keys.offset)
    start, width = int(ends[0]), int(ends[1]) - int(ends[0])
    if width not in WHOLE_WIDTHS or (ends[1:] - ends[:-1] != width).any():
        return None
    return np.frombuffer(data, f">u{width}", len(keys), start)


def _sort_wholes(keys: pa.BinaryArray, wholes: npt.NDArray[Any]) -> SortedKeys:
    values, order = wholes.astype(np.uint64), np.arange(len(wholes))
    if (values[1:] < values[:-1]).any():
        order = radix_order([values])
        values, wholes = values[order], wholes[order]
        keys = _binary(wholes)
    starts = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return SortedKeys(keys, order, starts, wholes)


def _binary(wholes: npt.NDArray[Any]) -> pa.BinaryArray:
    ends = np.arange(0, wholes.nbytes + 1, wholes.itemsize, dtype=np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), len(wholes), [None, pa.py_buffer(ends), pa.py_buffer(wholes)])


def _starts(keys: pa.BinaryArray) -> Flags:
    starts = np.ones(len(keys), np.bool_)
    if len(keys) > 1:
        starts[1:] = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    return starts


def _stable_order(keys: pa.BinaryArray) -> Ints:
    rows = ByteRows.of_binary(keys)
    at = _common_bytes(keys)
    everything = np.arange(len(keys))
    words, lefts = _words_at(rows, everything, at)
    # A radix sort goes from the least to the most decisive column: by the word, and where words are equal, by the
    # bytes left, for zeros beyond a key's end look like zeros inside one.
    order = radix_order([lefts, words])
    tied, groups = _ties(everything, [words[order], lefts[order]])
    tied, groups = _without_equal_keys(keys, order, tied, groups)
    if tied.size:
        some = order[tied]
        words, lefts = _words_at(rows, some, at + WORD_BYTES)
        # The tie decides first, so that keys move within their tie only: the places of a tie are the ones that its
        # keys had.
        turn = radix_order([lefts, words, groups])
        order[tied] = some[turn]
        tied, _ = _ties(tied, [groups[turn], words[turn], lefts[turn]])
    if tied.size:
        # Sorting all tied keys together leaves each group in its place: the groups are in order already.
        some = np.sort(order[tied])
        order[tied] = some[pc.array_sort_indices(keys.take(pa.array(some))).to_numpy()]
    return order


def _common_bytes(keys: pa.BinaryArray) -> int:
    """Return how many leading bytes all keys share: as many as the smallest and the largest do."""
    # In memcmp order every key lies between the least and the greatest, so it shares what those two share.
    extremes = pc.min_max(keys)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    shared = min(len(low), len(high))
    unlike = np.frombuffer(low, np.uint8, shared) != np.frombuffer(high, np.uint8, shared)
    return int(np.argmax(unlike)) if unlike.any() else shared


def _words_at(rows: ByteRows, some: Ints, at: int) -> tuple[Words, Words]:
    """Return the big-endian word of each key at a position, zero beyond its end, and the bytes left there.

    The bytes left count to one more than a word: a key that ends with the word sorts before one that goes on.
    """
    starts, lengths = rows.starts[some], rows.lengths[some]
    lefts = np.clip(lengths - at, 0, WORD_BYTES + 1)
    # Big-endian, so that integers compare as the bytes do. The minimum keeps the read at the key's end for shorter
    # keys, where the slack is; KEPT then clears all of it.
    words = rows.words[starts + np.minimum(lengths, at)].byteswap()
    return words & KEPT[lefts], lefts.view(np.uint64)


def radix_order(columns: list[Words]) -> Ints:
    """Return the stable order by the last column, then the one before it, and so on."""
    order: Ints | None = None
    for column in columns:
        # Bits that are the same in all rows order nothing; digits made of these alone are left out.
        varying = int(np.bitwise_or.reduce(column ^ column[0]))
        for shift in range(0, varying.bit_length(), DIGIT_BITS):
            if not (varying >> shift) & ((1 << DIGIT_BITS) - 1):
                continue
            digits = (column >> np.uint64(shift)).astype(np.uint16)
            if order is None:
                order = np.argsort(digits, kind="stable")
            else:
                order = order[np.argsort(digits[order], kind="stable")]
    return np.arange(columns[0].size) if order is None else order


def _ties(places: Ints, columns: list[Words]) -> tuple[Ints, Words]:
    """Return the sorted places whose keys may differ further on, and the tie that each belongs to.

    The last column is the bytes left: where keys end inside the word, equal columns are equal keys.
    """
    # `differs[i]` tells whether row i begins a new run, with one more at the end: a row is tied unless both its own
    # and the next are set.
    differs = np.ones(places.size + 1, np.bool_)
    differs[1:-1] = False
    for column in columns:
        differs[1:-1] |= column[1:] != column[:-1]
    tied = np.flatnonzero(~(differs[1:] & differs[:-1]) & (columns[-1] > WORD_BYTES))
    return places[tied], np.cumsum(differs[:-1])[tied].view(np.uint64)


def _without_equal_keys(keys: pa.BinaryArray, order: Ints, tied: Ints, groups: Words) -> tuple[Ints, Words]:
    """Leave out the ties of equal keys, which are in order as they are."""
    if tied.size == 0:
        return tied, groups
    known = keys.take(pa.array(order[tied]))
    # Neighbours of one tie that differ make the whole tie mixed. A tie of equal keys only is in order: the sort was
    # stable.
    unlike = pc.not_equal(known[1:], known[:-1]).to_numpy(zero_copy_only=False) & (groups[1:] == groups[:-1])
    mixed = np.zeros(int(groups[-1]) + 1, np.bool_)
    mixed[groups[1:][unlike]] = True
    open_ = mixed[groups]
    return tied[open_], groups[open_]
