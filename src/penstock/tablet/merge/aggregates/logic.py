"""bool_and, bool_or: nulls are skipped."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.codec.keys.fixed_width import values_of
from penstock.tablet.merge.aggregates.inputs import Inputs


def fold_and(inputs: Inputs) -> pa.Array:
    """Tell whether all inputs are true."""
    return _fold(inputs, np.logical_and, neutral=True)


def fold_or(inputs: Inputs) -> pa.Array:
    """Tell whether one input is true."""
    return _fold(inputs, np.logical_or, neutral=False)


def _fold(inputs: Inputs, operation: np.ufunc, *, neutral: bool) -> pa.Array:
    values = values_of(inputs.values).astype(np.bool_)
    old = values_of(inputs.old).astype(np.bool_)
    if inputs.counted is not None:
        values = np.where(inputs.counted, values, neutral)
    if inputs.old_valid is not None:
        old = np.where(inputs.old_valid, old, neutral)
    folded = operation(inputs.segments.reduce(operation, values), old)
    return pa.array(folded, mask=None if inputs.known is None else ~inputs.known)
