"""last_value and first_value, with nulls and without: one row of each segment is chosen, or the old value stays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.tablet.merge.aggregates.inputs import Inputs, either
from penstock.tablet.merge.aggregates.segments import NO_ROW


def fold_last(inputs: Inputs) -> pa.Array:
    """Take the last value that counts."""
    return either(inputs.segments.last(inputs.counted), inputs.values, inputs.old)


def fold_first(inputs: Inputs) -> pa.Array:
    """Keep what a row has, null or not; a new row takes the first value."""
    rows = inputs.segments.first(inputs.counted)
    return either(np.where(inputs.there, NO_ROW, rows), inputs.values, inputs.old)


def fold_first_not_null(inputs: Inputs) -> pa.Array:
    """Keep what a row has unless it is null; else take the first value that is not."""
    rows = inputs.segments.first(inputs.counted)
    settled = True if inputs.old_valid is None else inputs.old_valid
    return either(np.where(settled, NO_ROW, rows), inputs.values, inputs.old)


def replace_with_last(inputs: Inputs) -> pa.Array:
    """Put the last value, null or not, in the place of what is there."""
    return either(inputs.segments.last(None), inputs.values, inputs.old)
