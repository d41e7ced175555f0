"""array_agg: lists laid end to end, null lists skipped; nulls inside a list are elements."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from penstock.codec.keys.byte_rows import offsets_of
from penstock.tablet.merge.aggregates.growth import check_growth, laid_out
from penstock.tablet.merge.aggregates.inputs import Inputs


def fold_array_agg(inputs: Inputs) -> pa.Array:
    """Append the elements of the inputs to the old list; all null stays null."""
    kind = inputs.column.type
    lists, bounds = laid_out(inputs)
    # Laid end to end, the elements of a slot are already one list: only the outer edges are kept.
    edges = offsets_of(lists)[bounds]
    maker = pa.LargeListArray if pat.is_large_list(kind) else pa.ListArray
    offsets = pa.array(edges, pa.int64() if pat.is_large_list(kind) else pa.int32())
    folded = maker.from_arrays(offsets, lists.values, type=kind, mask=pa.array(np.diff(bounds) == 0))
    return check_growth(inputs, folded)
