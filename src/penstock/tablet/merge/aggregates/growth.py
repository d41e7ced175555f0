"""Values that grow with every write: laid end to end in slot order, and held to a size."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from penstock.codec.keys.byte_rows import is_variable, offsets_of
from penstock.errors import LimitError
from penstock.tablet.merge.aggregates.inputs import Inputs, refuse_first
from penstock.tablet.merge.aggregates.picks import replace_with_last

Ints = npt.NDArray[np.int64]


def laid_out(inputs: Inputs) -> tuple[pa.Array, Ints]:
    """Return the old value and the inputs of each slot, one after the other, and where each slot's begin."""
    slots = inputs.segments.slots
    kept = np.arange(inputs.segments.count) if inputs.old_valid is None else np.flatnonzero(inputs.old_valid)
    given = np.arange(inputs.segments.rows) if inputs.counted is None else np.flatnonzero(inputs.counted)
    owners = np.concatenate([kept, slots[given]])
    # The sort is stable, so the old value stays before the inputs, and these in their order.
    order = np.argsort(owners, kind="stable")
    rows = np.concatenate([kept, len(inputs.old) + given])[order]
    # `minlength` gives slots without any value, which are empty ranges, their bounds, too.
    bounds = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=inputs.segments.count))])
    return pa.concat_arrays([inputs.old, inputs.values]).take(pa.array(rows)), bounds


def check_growth(inputs: Inputs, folded: pa.Array) -> pa.Array:
    """Return the values if none that this write touches is too large.

    Raises:
        SlotRefusedError: one is.
    """
    sizes = sizes_of(folded)
    refuse_first(
        inputs.touched & (sizes > inputs.value_bytes_max),
        LimitError,
        "the aggregate grows beyond aggregate.max-value-bytes; raise it, or spread the values over more keys",
        max_value_bytes=inputs.value_bytes_max,
    )
    return folded


def replace_within_size(inputs: Inputs) -> pa.Array:
    """Put the last value, null or not, in the place of what is there, if it is not too large."""
    return check_growth(inputs, replace_with_last(inputs))


def sizes_of(array: pa.Array) -> Ints:
    """Return for each value how many bytes of data it has, all levels together."""
    kind = array.type
    if is_variable(kind):
        return np.diff(offsets_of(array))
    if pat.is_struct(kind):
        return sum((sizes_of(array.field(i)) for i in range(kind.num_fields)), np.zeros(len(array), np.int64))
    if pat.is_map(kind):
        return _within(array, sizes_of(array.keys) + sizes_of(array.items))
    if pat.is_list(kind) or pat.is_large_list(kind):
        return _within(array, sizes_of(array.values))
    return np.full(len(array), max(1, kind.bit_width // 8), np.int64)


def _within(array: pa.Array, sizes: Ints) -> Ints:
    # The total up to each edge, taken at the lists' edges: the difference of two is the size of the list between.
    return np.diff(np.concatenate([[0], np.cumsum(sizes)])[offsets_of(array)])
