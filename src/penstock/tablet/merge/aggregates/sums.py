"""sum and count: nulls are skipped, values can be taken back.

Integers and decimals are added exactly, however large the running total; what must fit the column is
the final value. Floats are IEEE: an infinity is a value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from penstock.codec.keys.fixed_width import array_of, storage_of, values_of
from penstock.errors import ArithmeticOverflowError
from penstock.tablet.merge.aggregates.inputs import Inputs, refuse_first, with_nulls
from penstock.tablet.merge.aggregates.limbs import INT64_MAX, Ints, carried, join_limbs, join_words, limbs_of, narrow_of
from penstock.tablet.merge.aggregates.segments import Mask

TOO_LARGE = "the aggregate does not fit its column; use a wider type"


def fold_sum(inputs: Inputs) -> pa.Array:
    """Add the inputs to the old value; all null stays null."""
    return with_nulls(_added(inputs), inputs.known)


def fold_count(inputs: Inputs) -> pa.Array:
    """Count the inputs; nothing counted is zero."""
    segments, counted, retracts = inputs.segments, inputs.counted, inputs.retracts
    counts = segments.tally(counted)
    if retracts is not None:
        # The tally above counts a row that takes back as one more; it is one less, which differs by two.
        counts = counts - 2 * segments.tally(retracts if counted is None else retracts & counted)
    array, beyond = _plus(inputs, counts)
    refuse_first(beyond, ArithmeticOverflowError, TOO_LARGE)
    return array


def merge_count(inputs: Inputs) -> pa.Array:
    """Add counts that the sender made."""
    return _added(inputs)


def _added(inputs: Inputs) -> pa.Array:
    kind = inputs.column.type
    if pat.is_floating(kind):
        return _added_floats(inputs)
    array, beyond = _added_exactly(inputs)
    refuse_first(beyond, ArithmeticOverflowError, TOO_LARGE)
    return array


def _plus(inputs: Inputs, counts: Ints) -> tuple[pa.Array, Mask]:
    """Add to each old count, none of which is more than a word."""
    old = narrow_of(inputs.old)
    assert old is not None
    old = _only(old, inputs.old_valid)
    # A word holds every result if the largest old count plus all rows does: the usual case, in one addition.
    if _reach(old) + inputs.segments.rows <= INT64_MAX:
        return join_words(old + counts, inputs.column.type)
    low, high = (_only(limb, inputs.old_valid) for limb in limbs_of(inputs.old))
    return join_limbs(carried([low + counts, high]), inputs.column.type)


def _added_floats(inputs: Inputs) -> pa.Array:
    # What adds nothing is -0.0: with 0.0 a sum of -0.0 alone would lose its sign.
    values = _only(_signed(values_of(inputs.values).astype(np.float64), inputs.retracts), inputs.counted, -0.0)
    old = _only(values_of(inputs.old).astype(np.float64), inputs.old_valid, -0.0)
    kind = inputs.column.type
    with np.errstate(over="ignore", invalid="ignore"):
        return array_of(kind, (old + inputs.segments.reduce(np.add, values)).astype(storage_of(kind)))


def _added_exactly(inputs: Inputs) -> tuple[pa.Array, Mask]:
    segments, kind = inputs.segments, inputs.column.type
    values, old = narrow_of(inputs.values), narrow_of(inputs.old)
    if values is not None and old is not None:
        values, old = _only(values, inputs.counted), _only(old, inputs.old_valid)
        # No segment can leave a word if its rows were all as large as the largest value. Else the sum is taken by
        # limbs, which cannot wrap.
        if _reach(values) * segments.longest + _reach(old) <= INT64_MAX:
            return join_words(segments.sum(_signed(values, inputs.retracts)) + old, kind)
    totals = []
    for limb, old_limb in zip(limbs_of(inputs.values), limbs_of(inputs.old), strict=True):
        signed = _signed(_only(limb, inputs.counted), inputs.retracts)
        totals.append(segments.sum(signed) + _only(old_limb, inputs.old_valid))
    return join_limbs(carried(totals), kind)


def _only(values: npt.NDArray[Any], mask: Mask | None, neutral: float = 0) -> npt.NDArray[Any]:
    """Return the values, the neutral one where the mask does not hold."""
    return values if mask is None else np.where(mask, values, values.dtype.type(neutral))


def _signed(values: npt.NDArray[Any], retracts: Mask | None) -> npt.NDArray[Any]:
    return values if retracts is None else np.where(retracts, -values, values)


def _reach(values: Ints) -> int:
    """Return the greatest magnitude."""
    return max(abs(int(values.min(initial=0))), abs(int(values.max(initial=0))))
