"""Whole numbers wider than a machine word, on arrays: 32-bit limbs in 64-bit words.

A number is the sum of its limbs, each times 2**32 to the power of its place. Limbs are signed words
with 31 bits to spare, so up to 2**31 numbers are added limb by limb without a carry; `carried` then
brings every limb but the last into [0, 2**32). Decimals are whole numbers here: their scale is of no
account to a sum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from penstock.codec.keys.fixed_width import array_of, decimal_limbs, storage_of, values_of

Ints = npt.NDArray[np.int64]
Limbs = list[Ints]
Mask = npt.NDArray[np.bool_]

_BITS = 32
_LOW = (1 << _BITS) - 1
_WORD = (1 << 64) - 1
INT64_MAX = (1 << 63) - 1


def limbs_of(array: pa.Array) -> Limbs:
    """Return the limbs of an integer or decimal array: two, or four."""
    if not pat.is_decimal(array.type):
        values = values_of(array).astype(np.int64)
        return [values & _LOW, values >> _BITS]
    words = decimal_limbs(array)
    low, high = words[:, 0].view(np.int64), words[:, 1].view(np.int64)
    return [low & _LOW, (low >> _BITS) & _LOW, high & _LOW, high >> _BITS]


def narrow_of(array: pa.Array) -> Ints | None:
    """Return the values of an integer or decimal array as words; None if one does not fit."""
    if not pat.is_decimal(array.type):
        return values_of(array).astype(np.int64, copy=False)
    words = decimal_limbs(array)
    low, high = words[:, 0].view(np.int64), words[:, 1].view(np.int64)
    return low if bool(((low >> 63) == high).all()) else None


def carried(limbs: Limbs) -> Limbs:
    """Return the same numbers, every limb but the last in [0, 2**32)."""
    result: Limbs = []
    carry: Ints | int = 0
    for limb in limbs[:-1]:
        total = limb + carry
        result.append(total & _LOW)
        carry = total >> _BITS
    return [*result, limbs[-1] + carry]


def bound_of(kind: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest value that a column of an integer or decimal type holds."""
    if pat.is_decimal(kind):
        greatest = 10**kind.precision - 1
        return -greatest, greatest
    limits = np.iinfo(storage_of(kind))
    return int(limits.min), int(limits.max)


def join_limbs(limbs: Limbs, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Return carried limbs as an array of the type, and which values are too large for it."""
    top = limbs[-1]
    # The top limb must be its low 32 bits, sign-extended; anything else does not fit the words made below.
    beyond = (top >> (_BITS - 1)) != (top >> 63)
    words = [(limbs[i + 1] << _BITS) | limbs[i] for i in range(0, len(limbs), 2)]
    if len(words) == 1:
        # What does not fit a word is beyond already; the rest may be too large for a narrower type.
        array, outside = join_words(words[0], kind)
        return array, beyond | outside
    low, high = words[0].view(np.uint64), words[1]
    least, greatest = bound_of(kind)
    beyond |= _above(low, high, greatest) | ~_above(low, high, least - 1)
    return array_of(kind, np.column_stack([low, high.view(np.uint64)])), beyond


def join_words(words: Ints, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Return words as an array of the type, and which values are too large for it."""
    least, greatest = bound_of(kind)
    beyond = (words < least) | (words > greatest) if greatest < INT64_MAX else np.zeros(len(words), np.bool_)
    if not pat.is_decimal(kind):
        return array_of(kind, words.astype(storage_of(kind), copy=False)), beyond
    return array_of(kind, np.column_stack([words, words >> 63])), beyond


def _above(low: npt.NDArray[np.uint64], high: Ints, bound: int) -> Mask:
    """Tell which numbers of two words are greater than the bound."""
    bound_low, bound_high = np.uint64(bound & _WORD), bound >> 64
    # The high word is signed and decides; the low word is unsigned and breaks ties.
    above: Mask = (high > bound_high) | ((high == bound_high) & (low > bound_low))
    return above
