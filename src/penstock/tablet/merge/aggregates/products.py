"""product: nulls are skipped, values cannot be taken back.

What must fit the column is the final value: a zero makes up for factors before it that were too
large. Decimals are rounded, half away from zero, to the column's scale after each factor, so that
it does not matter how the factors were spread over writes; on the way they may have 76 digits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from penstock.codec.keys.fixed_width import array_of, decimal_limbs, storage_of, values_of
from penstock.errors import ArithmeticOverflowError
from penstock.tablet.merge.aggregates.inputs import Inputs, refuse_first, with_nulls
from penstock.tablet.merge.aggregates.limbs import bound_of, join_words
from penstock.tablet.merge.aggregates.segments import Mask
from penstock.tablet.merge.aggregates.sums import TOO_LARGE

_NEAR = 1e-6
"""How near the edge of a word a float's estimate of a product says nothing; its error is far less."""

_DIGITS_MAX = 76
_WORD = (1 << 64) - 1


def fold_product(inputs: Inputs) -> pa.Array:
    """Multiply the old value by the inputs; all null stays null."""
    kind = inputs.column.type
    if pat.is_floating(kind):
        folded = _multiplied_floats(inputs)
    elif pat.is_decimal(kind):
        folded = _multiplied_decimals(inputs)
    else:
        folded = _multiplied_integers(inputs)
    return with_nulls(folded, inputs.known)


def _multiplied_floats(inputs: Inputs) -> pa.Array:
    values = _only(values_of(inputs.values).astype(np.float64), inputs.counted)
    old = _only(values_of(inputs.old).astype(np.float64), inputs.old_valid)
    kind = inputs.column.type
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return array_of(kind, (old * inputs.segments.reduce(np.multiply, values)).astype(storage_of(kind)))


def _multiplied_integers(inputs: Inputs) -> pa.Array:
    segments = inputs.segments
    values = _only(values_of(inputs.values).astype(np.int64), inputs.counted)
    old = _only(values_of(inputs.old).astype(np.int64), inputs.old_valid)
    zero = segments.any(values == 0) | (old == 0)
    # Without zeros the magnitude only grows, so one float product tells whether the words wrapped.
    factors, old = np.where(values == 0, 1, values), np.where(zero, 1, old)
    words = old * segments.reduce(np.multiply, factors)
    with np.errstate(over="ignore"):
        estimate = np.abs(old.astype(np.float64)) * segments.reduce(np.multiply, np.abs(factors.astype(np.float64)))
    beyond = ~zero & (estimate > 2.0**63 * (1 + _NEAR))
    unclear = ~zero & ~beyond & (estimate > 2.0**63 * (1 - _NEAR))
    for slot in np.flatnonzero(unclear).tolist():
        exact = int(old[slot]) * math.prod(factors[segments.slots == slot].tolist())
        beyond[slot] = not -(1 << 63) <= exact < 1 << 63
    array, outside = join_words(np.where(zero, 0, words), inputs.column.type)
    refuse_first(beyond | (outside & ~zero), ArithmeticOverflowError, TOO_LARGE)
    return array


def _multiplied_decimals(inputs: Inputs) -> pa.Array:
    kind, segments = inputs.column.type, inputs.segments
    one = 10**kind.scale
    values = _only(_integers(inputs.values), inputs.counted, one)
    old = _only(_integers(inputs.old), inputs.old_valid, one)
    starts = np.arange(segments.count) if segments.starts is None else segments.starts
    # The old value goes before the first row of each slot, so the fold starts from it; every slot before has moved
    # the later ones on by one, hence the `arange` below.
    factors = np.insert(values, starts, old)
    step = np.frompyfunc(lambda left, right: _times(left, right, one), 2, 1)
    product = step.reduceat(factors, starts + np.arange(segments.count))
    if inputs.known is not None:
        # A product of nothing is one, which a column without whole digits does not hold; it becomes null.
        product = np.where(inputs.known, product, 0)
    _, greatest = bound_of(kind)
    beyond: Mask = (np.abs(product) > greatest).astype(np.bool_)
    refuse_first(beyond, ArithmeticOverflowError, TOO_LARGE)
    low, high = (product & _WORD).astype(np.uint64), ((product >> 64) & _WORD).astype(np.uint64)
    return array_of(kind, np.column_stack([low, high]))


def _times(left: Any, right: Any, one: int) -> Any:
    """Multiply two scaled integers; what has become too long stays infinite, unless a zero comes."""
    if not left or not right:
        return 0
    if left == math.inf:
        return left
    magnitude = (2 * abs(left * right) + one) // (2 * one)
    if magnitude >= 10**_DIGITS_MAX:
        return math.inf
    return magnitude if (left < 0) == (right < 0) else -magnitude


def _integers(array: pa.Array) -> npt.NDArray[np.object_]:
    """Return the unscaled values of a decimal array as Python's integers."""
    words = decimal_limbs(array)
    high = words[:, 1].view(np.int64).astype(object)
    integers: npt.NDArray[np.object_] = (high << 64) | words[:, 0].astype(object)
    return integers


def _only(values: npt.NDArray[Any], mask: Mask | None, neutral: int = 1) -> npt.NDArray[Any]:
    """Return the values, the neutral one where the mask does not hold."""
    return values if mask is None else np.where(mask, values, neutral)
