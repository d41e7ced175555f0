"""XXH64 over whole columns: one hash per row, each with its own seed.

The seed of a row is the hash of the columns before it, which is how Spark chains columns. The
arithmetic is modulo 2**64 throughout; NumPy wraps silently on unsigned arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xxhash

from penstock.codec.keys.byte_rows import ByteRows, Ints, Words

P1: Final = np.uint64(0x9E3779B185EBCA87)
P2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
P3: Final = np.uint64(0x165667B19E3779F9)
P4: Final = np.uint64(0x85EBCA77C2B2AE63)
P5: Final = np.uint64(0x27D4EB2F165667C5)
LOW_32: Final = np.uint64(0xFFFFFFFF)

STRIPE_BYTES: Final = 32
LANE_SEEDS: Final = (np.uint64(0x60EA27EEADC0B5D6), P2, np.uint64(0), np.uint64(0x61C8864E7A143579))
"""What the four lanes of a stripe add to the seed: P1 + P2, P2, 0, -P1."""

LONG_ROW_BYTES: Final = 1024
"""Rows above this go to the xxhash package: one call is cheap beside the bytes that it hashes."""

FEW_ROWS: Final = 1024
FEW_WORDS: Final = 32
"""Up to so many rows the package, row by row, costs less than starting the array operations."""


def hash_ints(values: Words, seeds: Words) -> Words:
    """Hash the low four bytes of each value."""
    if values.size <= FEW_WORDS:
        return _hash_each(ByteRows.of_records(values.astype("<u4")), seeds)
    hashes = seeds + (P5 + np.uint64(4))
    _fold_int(hashes, values.copy())
    return _avalanche(hashes)


def hash_longs(values: Words, seeds: Words) -> Words:
    """Hash the eight bytes of each value."""
    if values.size <= FEW_WORDS:
        return _hash_each(ByteRows.of_records(values), seeds)
    hashes = seeds + (P5 + np.uint64(8))
    _fold_word(hashes, values.copy())
    return _avalanche(hashes)


def hash_bytes(rows: ByteRows, seeds: Words) -> Words:
    """Hash the bytes of each row."""
    if rows.lengths.size <= FEW_ROWS:
        return _hash_each(rows, seeds)
    hashes = seeds + P5
    _fold_stripes(hashes, rows, seeds)
    hashes += rows.lengths.astype(np.uint64)
    # What stripes leave, in the order that the format prescribes: whole words, then four bytes, then single bytes.
    # Rows differ in length, so each step takes those rows under a mask that still have so much.
    left = rows.lengths & (STRIPE_BYTES - 1)
    tails = rows.starts + rows.lengths - left
    for at in range(0, STRIPE_BYTES - 8, 8):
        _fold_where(left >= at + 8, hashes, rows.words, tails + at, _fold_word)
    _fold_where((left & 4) != 0, hashes, rows.words, tails + (left & 24), _fold_int)
    tails += left & 28
    left &= 3
    for at in range(3):
        _fold_where(left > at, hashes, rows.data, tails + at, _fold_byte)
    _avalanche(hashes)
    # Long rows went through the steps above without their stripes; their hashes are replaced here.
    if (long := np.flatnonzero(rows.lengths > LONG_ROW_BYTES)).size:
        hashes[long] = _hash_each(ByteRows(rows.data, rows.starts[long], rows.lengths[long]), seeds[long])
    return hashes


def _fold_stripes(hashes: Words, rows: ByteRows, seeds: Words) -> None:
    """Replace the start value of every row that has whole stripes."""
    some = np.flatnonzero((rows.lengths >= STRIPE_BYTES) & (rows.lengths <= LONG_ROW_BYTES))
    if some.size == 0:
        return
    stripes = (rows.lengths[some] // STRIPE_BYTES).astype(np.uint16)
    # Shortest first: the rows that still have a stripe are always a trailing slice.
    shortest_first = np.argsort(stripes, kind="stable")
    some, stripes = some[shortest_first], stripes[shortest_first]
    words, starts = rows.words, rows.starts[some]
    lanes = [seeds[some] + lane_seed for lane_seed in LANE_SEEDS]
    for stripe in range(int(stripes[-1])):
        # Rows from `first` on have more stripes than were folded so far.
        first = int(np.searchsorted(stripes, np.uint16(stripe), side="right"))
        for lane in range(4):
            _round(lanes[lane][first:], words[starts[first:] + (stripe * STRIPE_BYTES + lane * 8)])
    hashes[some] = _merge(lanes)


def _merge(lanes: list[Words]) -> Words:
    """Fold the four lanes into one hash; the lanes are used up."""
    merged = np.zeros_like(lanes[0])
    for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True):
        turned = lane.copy()
        _rotate(turned, bits)
        merged += turned
    for lane in lanes:
        _mix(lane)
        merged ^= lane
        merged *= P1
        merged += P4
    return merged


def _fold_where(
    mask: npt.NDArray[np.bool_],
    hashes: Words,
    source: npt.NDArray[Any],
    places: Ints,
    fold: Callable[[Words, Words], None],
) -> None:
    """Fold what the source holds at each row's place into the hashes of the rows under the mask."""
    count = np.count_nonzero(mask)
    if count == mask.size:
        fold(hashes, source[places].astype(np.uint64, copy=False))
    elif count:
        some = np.flatnonzero(mask)
        part = hashes[some]
        fold(part, source[places[some]].astype(np.uint64, copy=False))
        hashes[some] = part


def _hash_each(rows: ByteRows, seeds: Words) -> Words:
    view = rows.data.data
    facts = zip(rows.starts.tolist(), (rows.starts + rows.lengths).tolist(), seeds.tolist(), strict=True)
    return np.array([xxhash.xxh64_intdigest(view[start:end], seed) for start, end, seed in facts], np.uint64)


def _rotate(values: Words, bits: int) -> None:
    right = values >> np.uint64(64 - bits)
    values <<= np.uint64(bits)
    values |= right


def _round(lanes: Words, values: Words) -> None:
    """Mix eight bytes into each lane; the values are used up."""
    values *= P2
    lanes += values
    _rotate(lanes, 31)
    lanes *= P1


def _mix(values: Words) -> None:
    values *= P2
    _rotate(values, 31)
    values *= P1


def _fold_word(hashes: Words, values: Words) -> None:
    """Mix eight bytes into each hash; the values are used up."""
    _mix(values)
    hashes ^= values
    _rotate(hashes, 27)
    hashes *= P1
    hashes += P4


def _fold_int(hashes: Words, values: Words) -> None:
    """Mix the low four bytes into each hash; the values are used up."""
    values &= LOW_32
    values *= P1
    hashes ^= values
    _rotate(hashes, 23)
    hashes *= P2
    hashes += P3


def _fold_byte(hashes: Words, values: Words) -> None:
    """Mix one byte into each hash; the values are used up."""
    values *= P5
    hashes ^= values
    _rotate(hashes, 11)
    hashes *= P1


def _avalanche(hashes: Words) -> Words:
    """Finish the hashes in place and return them."""
    hashes ^= hashes >> np.uint64(33)
    hashes *= P2
    hashes ^= hashes >> np.uint64(29)
    hashes *= P3
    hashes ^= hashes >> np.uint64(32)
    return hashes
