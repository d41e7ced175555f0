"""Are two rows' values the same? Element by element, nulls and nesting included, vectorised.

The question is whether a write would change what is stored, so floats are compared by their
bits: 0.0 and -0.0 differ. All NaNs are the same value, whatever their payload. A null equals a
null and nothing else. Maps are equal if they have equal entries in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from penstock.codec.keys.byte_rows import Ints, offsets_of
from penstock.codec.keys.fixed_width import is_plain, values_of

Flags = npt.NDArray[np.bool_]


def rows_equal(left: pa.Array, right: pa.Array) -> Flags:
    """Tell for each row whether both arrays, of one type and length, hold the same value there."""
    assert left.type == right.type, f"{left.type} against {right.type}"
    assert len(left) == len(right)
    if left.null_count == 0 and right.null_count == 0:
        return _values_equal(left, right, np.ones(len(left), np.bool_))
    left_valid, right_valid = _valid(left), _valid(right)
    both = left_valid & right_valid
    return np.where(both, _values_equal(left, right, both), left_valid == right_valid)


def _values_equal(left: pa.Array, right: pa.Array, both: Flags) -> Flags:
    """Compare the rows where neither side is null; the answer elsewhere is of no account."""
    kind = left.type
    if pat.is_floating(kind):
        return _floats_equal(left, right)
    if is_plain(left) and is_plain(right):
        same: Flags = values_of(left) == values_of(right)
        return same
    if pat.is_struct(kind):
        # `field` leaves out the struct's own nulls; `both` holds for rows where neither struct is null, so what
        # stands under a null does not count.
        for i in range(kind.num_fields):
            both = both & rows_equal(left.field(i), right.field(i))
        return both
    if pat.is_map(kind):
        return _lists_equal(left, right, [(left.keys, right.keys), (left.items, right.items)], both)
    if pat.is_list(kind) or pat.is_large_list(kind):
        return _lists_equal(left, right, [(left.values, right.values)], both)
    if pat.is_null(kind):
        return both
    equal: Flags = pc.equal(left, right).fill_null(False).to_numpy(zero_copy_only=False)
    return equal


def _floats_equal(left: pa.Array, right: pa.Array) -> Flags:
    one, other = values_of(left), values_of(right)
    bits = np.dtype(f"u{one.dtype.itemsize}")
    equal: Flags = (one.view(bits) == other.view(bits)) | (np.isnan(one) & np.isnan(other))
    return equal


def _lists_equal(left: pa.Array, right: pa.Array, children: Sequence[tuple[pa.Array, pa.Array]], both: Flags) -> Flags:
    """Compare lengths first, then the elements of the rows whose lengths agree."""
    left_bounds, right_bounds = offsets_of(left), offsets_of(right)
    lengths = np.diff(left_bounds)
    equal: Flags = both & (lengths == np.diff(right_bounds))
    rows = np.flatnonzero(equal)
    lengths = lengths[rows]
    # Mismatches are counted over all elements; a row has none if the count stands still inside it.
    edges = np.concatenate(([0], np.cumsum(lengths)))
    inner = np.ones(int(edges[-1]), np.bool_)
    for one, other in children:
        inner &= rows_equal(
            _elements(one, left_bounds[rows], edges),
            _elements(other, right_bounds[rows], edges),
        )
    mismatches = np.concatenate(([0], np.cumsum(~inner)))
    equal[rows] = mismatches[edges[1:]] == mismatches[edges[:-1]]
    return equal


def _elements(child: pa.Array, starts: Ints, edges: Ints) -> pa.Array:
    """Return the elements of some lists one after another; a slice where they lie so already."""
    if starts.size == 0:
        return child[:0]
    # How far each list lies from where it would lie end to end. All alike: the lists are neighbours already, and a
    # slice without a copy will do.
    shifts = starts - edges[:-1]
    if np.all(shifts == shifts[0]):
        return child.slice(int(starts[0]), int(edges[-1]))
    return child.take(pa.array(np.arange(edges[-1]) + np.repeat(shifts, np.diff(edges))))


def _valid(array: pa.Array) -> Flags:
    valid: Flags = array.is_valid().to_numpy(zero_copy_only=False)
    return valid
