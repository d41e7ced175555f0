"""listagg: strings joined with a delimiter, nulls skipped."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from penstock.errors import LimitError
from penstock.model.schema.aggregate import DELIMITER
from penstock.tablet.merge.aggregates.growth import check_growth, laid_out
from penstock.tablet.merge.aggregates.inputs import Inputs

_STRING_BYTES_MAX = (1 << 31) - 1
"""How many bytes a column of strings can hold in one batch; large_string has no such limit."""


def fold_listagg(inputs: Inputs) -> pa.Array:
    """Join the inputs to the old value; all null stays null."""
    kind = inputs.column.type
    delimiter = inputs.column.agg_params[DELIMITER]
    if pat.is_string(kind):
        _check_total(inputs, delimiter)
    texts, bounds = laid_out(inputs)
    lists = pa.LargeListArray.from_arrays(pa.array(bounds), texts, mask=pa.array(np.diff(bounds) == 0))
    joined = pc.binary_join(lists, pa.scalar(delimiter, kind))
    return check_growth(inputs, joined)


def _check_total(inputs: Inputs, delimiter: str) -> None:
    total = inputs.old.nbytes + inputs.values.nbytes + inputs.segments.rows * len(delimiter.encode())
    if total > _STRING_BYTES_MAX:
        raise LimitError(
            "the values that this write touches are too large together; write fewer keys at a time",
            column=inputs.column.name,
            bytes=total,
        )
