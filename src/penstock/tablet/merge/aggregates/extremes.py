"""min and max: nulls are skipped. NaN is greater than every number, as in Spark; -0.0 is less than 0.0.

What fits a word is compared as one; floats by their bits, turned so that their order is that of the
integers. Texts and wide decimals are sorted once, and then their places are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from penstock.codec.keys.fixed_width import array_of, storage_of, values_of
from penstock.tablet.merge.aggregates.inputs import Inputs, either, with_nulls
from penstock.tablet.merge.aggregates.limbs import Ints, join_words, narrow_of
from penstock.tablet.merge.aggregates.segments import NO_ROW

_INT64 = np.iinfo(np.int64)


def fold_max(inputs: Inputs) -> pa.Array:
    """Keep the greatest."""
    return _fold(inputs, np.maximum, neutral=int(_INT64.min))


def fold_min(inputs: Inputs) -> pa.Array:
    """Keep the least."""
    return _fold(inputs, np.minimum, neutral=int(_INT64.max))


def _fold(inputs: Inputs, operation: np.ufunc, *, neutral: int) -> pa.Array:
    values, old = _words(inputs.values), _words(inputs.old)
    if values is None or old is None:
        return _fold_places(inputs, operation, neutral=neutral)
    if inputs.counted is not None:
        values = np.where(inputs.counted, values, neutral)
    if inputs.old_valid is not None:
        old = np.where(inputs.old_valid, old, neutral)
    folded = operation(inputs.segments.reduce(operation, values), old)
    return with_nulls(_from_words(folded, inputs.column.type), inputs.known)


def _fold_places(inputs: Inputs, operation: np.ufunc, *, neutral: int) -> pa.Array:
    both = pa.concat_arrays([inputs.values, inputs.old])
    sorted_rows = pc.array_sort_indices(both).to_numpy().astype(np.int64)
    # The inverse permutation: a value's place in the sorted order compares as the value does. Nulls sort last, but
    # they are masked, so `neutral` says "nothing counts" and is no place.
    places = np.empty(len(sorted_rows), np.int64)
    places[sorted_rows] = np.arange(len(sorted_rows))
    values, old = places[: len(inputs.values)], places[len(inputs.values) :]
    if inputs.counted is not None:
        values = np.where(inputs.counted, values, neutral)
    if inputs.old_valid is not None:
        old = np.where(inputs.old_valid, old, neutral)
    best = operation(inputs.segments.reduce(operation, values), old)
    none = best == neutral
    rows = sorted_rows[np.where(none, 0, best)]
    # Of equal values the old one stays; where nothing counts, the null that is there does.
    stays = none | (rows >= len(inputs.values))
    return either(np.where(stays, NO_ROW, rows), inputs.values, inputs.old)


def _words(array: pa.Array) -> Ints | None:
    """Return the values as words in the same order; None if they do not fit."""
    kind = array.type
    if pat.is_floating(kind):
        values = values_of(array).astype(np.float64, copy=False)
        with np.errstate(invalid="ignore"):
            greatest = values.max(initial=-np.inf)
        if np.isnan(greatest):
            # Every NaN is the same value, whatever its sign and payload.
            values = np.where(np.isnan(values), np.float64(np.nan), values)
        return _turned(values.view(np.int64))
    if pat.is_integer(kind) or pat.is_decimal(kind) or pat.is_date(kind) or pat.is_timestamp(kind):
        return narrow_of(array)
    return None


def _from_words(words: Ints, kind: pa.DataType) -> pa.Array:
    if pat.is_floating(kind):
        values: npt.NDArray[Any] = _turned(words).view(np.float64)
        return array_of(kind, values.astype(storage_of(kind)))
    if pat.is_decimal(kind):
        return join_words(words, kind)[0]
    return array_of(kind, words.astype(storage_of(kind), copy=False))


def _turned(bits: Ints) -> Ints:
    """Turn the bits of floats so that they compare as integers; turning twice gives them back."""
    # The sign spread over all bits, without the top one: it inverts the magnitude of negative floats, whose bits grow
    # as the value falls, and leaves positive ones alone.
    turned = bits >> 63
    turned &= _INT64.max
    turned ^= bits
    return turned
