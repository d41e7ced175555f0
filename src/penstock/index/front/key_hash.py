"""Fingerprints of keys, seeded anew in every process: two different keys never share one.

*Narrow* keys, all of one width of at most eight bytes, are integers. Their fingerprint is a bijection of
the integer, so it is the key: there are no collisions at all, and the keys can be had back from it.

*Wide* keys have a fingerprint of 128 bits, four sums over the key's 32-bit pieces and its length, each with
its own random 64-bit coefficients, of which the upper half counts (multilinear hashing, strongly universal).
Whatever two keys are chosen, by chance or by a caller who wants them to collide, they share a fingerprint
with probability 2**-128 over the coefficients, which no caller sees: they never leave the process, and neither
does a fingerprint. Among 20 million keys any two collide with probability below 2**-79, less than that of the
memory flipping a bit unnoticed. So a fingerprint is taken for the key, and no row is read to make sure.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable
from operator import mul
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.codec.keys.byte_rows import WORD_BYTES, ByteRows, Ints, Words
from penstock.index.front.hash_table import Prints

NARROW_WORDS: Final = 1
WIDE_WORDS: Final = 2

_WORD: Final = (1 << 64) - 1
_LANES: Final = 4
_APART_BITS: Final = 128
_UPPER_HALF: Final = 0xFFFFFFFF00000000
_LOWER_HALF: Final = 0xFFFFFFFF
_HALF_BITS: Final = np.uint64(32)
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
_SEED_BYTES: Final = 32
_LONG_KEY_BYTES: Final = 512
"""Keys above this go to BLAKE2b one by one: a call is cheap beside the bytes that it hashes."""

_KEPT: Final = np.array([(1 << 8 * k) - 1 for k in range(WORD_BYTES + 1)], np.uint64)
"""The part of a little-endian word that belongs to a key with k bytes left."""


class NarrowHash:
    """Fingerprints of keys of one width, at most eight bytes: a seeded bijection."""

    words: Final = NARROW_WORDS

    def __init__(self, width: int, entropy: Callable[[int], bytes] = os.urandom) -> None:
        assert 0 <= width <= WORD_BYTES
        self.width = width
        self._mask, first, second = np.frombuffer(entropy(3 * WORD_BYTES), np.uint64)
        self._first, self._second = first | np.uint64(1), second | np.uint64(1)
        self._plain = int(self._mask), int(self._first), int(self._second)

    def prints(self, rows: ByteRows) -> Prints:
        """Return the fingerprints of keys of this width."""
        return self.prints_of_words(rows.words[rows.starts] & _KEPT[self.width])

    def prints_of_words(self, words: Words) -> Prints:
        """Return the fingerprints of keys of this width, each given as a little-endian word."""
        # Each step can be undone: xor, a product with an odd number modulo 2**64, and a shift by half a word. So no
        # two keys share a fingerprint, and `keys` walks the steps back.
        mixed = words ^ self._mask
        mixed *= self._first
        mixed ^= mixed >> _HALF_BITS
        mixed *= self._second
        return (mixed,)

    def print_of(self, key: bytes) -> tuple[int, ...] | None:
        """Return the fingerprint of one key; None if it is of another width."""
        if len(key) != self.width:
            return None
        mask, first, second = self._plain
        mixed = (int.from_bytes(key, "little") ^ mask) * first & _WORD
        return ((mixed ^ mixed >> 32) * second & _WORD,)

    def keys(self, prints: Prints) -> ByteRows:
        """Return the keys that have these fingerprints."""
        words = prints[0] * _inverse(self._second)
        words ^= words >> _HALF_BITS
        words *= _inverse(self._first)
        words ^= self._mask
        rows = ByteRows.of_records(words.astype("<u8"))
        return ByteRows(rows.data, rows.starts, np.full(len(words), self.width))


class WideHash:
    """Fingerprints of any keys: 128 bits, strongly universal. Thread-safe: the coefficients never change."""

    words: Final = WIDE_WORDS

    def __init__(self, entropy: Callable[[int], bytes] = os.urandom) -> None:
        # For each lane the start, the coefficient of the length, and two for every word of a key.
        count = _LANES * (2 + 2 * _LONG_KEY_BYTES // WORD_BYTES)
        self._coefficients = np.frombuffer(entropy(count * WORD_BYTES), np.uint64).reshape(-1, _LANES, 1)
        # The coefficients of all lanes in one integer, far enough apart: one key is hashed with a quarter of the sums.
        lanes: list[list[int]] = self._coefficients[:, :, 0].tolist()
        self._joined = [sum(lane << _APART_BITS * at for at, lane in enumerate(reversed(each))) for each in lanes]
        self._seed = entropy(_SEED_BYTES)

    def prints(self, rows: ByteRows) -> Prints:
        """Return the fingerprints of the keys."""
        # The length has a coefficient of its own, for the zeros that fill a key's last word would not tell two
        # lengths apart.
        start, per_byte = self._coefficients[:2]
        lanes = start + per_byte * rows.lengths.astype(np.uint64)
        for word in range(-(-min(int(rows.lengths.max(initial=0)), _LONG_KEY_BYTES) // WORD_BYTES)):
            self._fold(lanes, rows, word)
        # Only the upper half of each sum is strongly universal; four halves make the two words.
        upper = lanes >> _HALF_BITS
        prints = (upper[0] << _HALF_BITS | upper[1], upper[2] << _HALF_BITS | upper[3])
        if (long := np.flatnonzero(rows.lengths > _LONG_KEY_BYTES)).size:
            digests = self._digests(rows, long)
            prints[0][long], prints[1][long] = digests[:, 0], digests[:, 1]
        return prints

    def print_of(self, key: bytes) -> tuple[int, ...]:
        """Return the fingerprint of one key."""
        if len(key) > _LONG_KEY_BYTES:
            return struct.unpack("=2Q", self._digest(key))
        count = -(-len(key) // 4)
        # The same sums as in `prints`, for all four lanes in one integer of Python's: a lane lies in 128 bits, more
        # than its sum reaches, so no carry crosses into the next.
        pieces = (1, len(key), *struct.unpack(f"<{count}I", key.ljust(4 * count, b"\0")))
        lanes = sum(map(mul, self._joined, pieces))
        first = lanes >> 3 * _APART_BITS & _UPPER_HALF | lanes >> 2 * _APART_BITS + 32 & _LOWER_HALF
        return first, lanes >> _APART_BITS & _UPPER_HALF | lanes >> 32 & _LOWER_HALF

    def _fold(self, lanes: Words, rows: ByteRows, word: int) -> None:
        """Add the products of one word of every key that reaches so far."""
        at = word * WORD_BYTES
        some = np.flatnonzero(rows.lengths > at)
        pieces = rows.words[rows.starts[some] + at] & _KEPT[np.minimum(rows.lengths[some] - at, WORD_BYTES)]
        low, high = self._coefficients[2 + 2 * word : 4 + 2 * word]
        products = low * (pieces & _LOW_HALF) + high * (pieces >> _HALF_BITS)
        if len(some) == len(rows.lengths):
            lanes += products
        else:
            lanes[:, some] += products

    def _digests(self, rows: ByteRows, some: Ints) -> Words:
        view, bounds = rows.data.data, zip(rows.starts[some].tolist(), rows.lengths[some].tolist(), strict=True)
        digests = [self._digest(view[start : start + length]) for start, length in bounds]
        return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, WIDE_WORDS)

    def _digest(self, key: bytes | memoryview) -> bytes:
        return hashlib.blake2b(key, digest_size=WIDE_WORDS * WORD_BYTES, key=self._seed).digest()


def rows_of(keys: pa.BinaryArray) -> ByteRows:
    """Return the keys' bytes, ready to be hashed."""
    assert keys.type == pa.binary(), keys.type
    assert keys.null_count == 0
    return ByteRows.of_binary(keys)


def whole_words(keys: pa.BinaryArray) -> Words | None:
    """Return keys of eight bytes each as little-endian words; None if one has another width, or there are none."""
    assert keys.type == pa.binary(), keys.type
    assert keys.null_count == 0
    if len(keys) == 0:
        return None
    _, bounds, data = keys.buffers()
    ends = np.frombuffer(bounds, np.int32, len(keys) + 1, 4 * keys.offset)
    start = int(ends[0])
    # The total first: it rules out most other widths without a pass over the rows.
    if int(ends[-1]) - start != WORD_BYTES * len(keys) or (ends[1:] - ends[:-1] != WORD_BYTES).any():
        return None
    return np.frombuffer(data, "<u8", len(keys), start)


def narrow_width(rows: ByteRows) -> int | None:
    """Return the width that all keys have, if it is narrow; there is at least one key."""
    width = int(rows.lengths[0])
    return width if width <= WORD_BYTES and bool((rows.lengths == width).all()) else None


def _inverse(odd: np.uint64) -> np.uint64:
    return np.uint64(pow(int(odd), -1, 1 << 64))
