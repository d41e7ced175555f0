"""The inputs of an aggregate function: the values of one column, cut into segments, and what the rows had before."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import InvalidError
from penstock.model.schema.schema import Column
from penstock.tablet.merge.aggregates.segments import Mask, Segments


class SlotRefusedError(Exception):
    """The value of one slot cannot be stored; the rule, which knows the key, says so to the writer."""

    def __init__(self, slot: int, kind: type[InvalidError], message: str, **facts: Any) -> None:
        super().__init__(message)
        self.slot = slot
        self.kind = kind
        self.message = message
        self.facts = facts


@dataclass(frozen=True)
class Inputs:
    """The inputs of one column.

    `given` has the values as they came; the masks are in segment order. `counted` marks the rows that say
    something: not the nulls that the function skips (None: all do). `retracts` marks the rows that take
    their value back (None: none does); a function sees them only if it can. `old` has the stored value of
    each slot, null where there is none; `there` tells which slots have a row. A value that grows has at
    most `value_bytes_max`.
    """

    column: Column
    segments: Segments
    given: pa.Array
    old: pa.Array
    there: Mask
    value_bytes_max: int
    counted: Mask | None = None
    retracts: Mask | None = None

    @cached_property
    def values(self) -> pa.Array:
        """Return the values in segment order."""
        return self.segments.arrange(self.given)

    @cached_property
    def touched(self) -> Mask:
        """Tell which slots have an input that counts."""
        return self.segments.any(self.counted)

    @cached_property
    def old_valid(self) -> Mask | None:
        """Tell which slots have a stored value that is not null; None: all have."""
        return validity(self.old)

    @property
    def known(self) -> Mask | None:
        """Tell which slots have a value afterwards, for a function that skips nulls; None: all have."""
        return None if self.old_valid is None else self.old_valid | self.touched


def validity(array: pa.Array) -> Mask | None:
    """Tell which values are not null; None: all are."""
    if array.null_count == 0:
        return None
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def with_nulls(array: pa.Array, valid: Mask | None) -> pa.Array:
    """Return a fixed-width array without nulls, null where `valid` does not hold."""
    if valid is None or valid.all():
        return array
    assert array.offset == 0
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [bits, array.buffers()[1]])


def either(rows: npt.NDArray[np.int64], values: pa.Array, old: pa.Array) -> pa.Array:
    """Return for each slot the value of the row named, or the old value where none is (negative)."""
    if (rows >= 0).all():
        return values.take(pa.array(rows))
    # One `take` from both arrays: the old values lie behind the new ones, slot by slot.
    both = pa.concat_arrays([values, old])
    return both.take(pa.array(np.where(rows >= 0, rows, len(values) + np.arange(len(rows)))))


def refuse_first(wrong: Mask, kind: type[InvalidError], message: str, **facts: Any) -> None:
    """Refuse the first slot that is wrong, if any.

    Raises:
        SlotRefusedError: there is one.
    """
    if wrong.any():
        raise SlotRefusedError(int(np.argmax(wrong)), kind, message, **facts)
