"""The change types of rows to apply: what each row of a changelog does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidError, SchemaMismatchError, UnsupportedError
from penstock.model.place.change import ChangeType
from penstock.model.place.system_columns import CHANGE_TYPE

Mask = npt.NDArray[np.bool_]

_KNOWN: Final = pa.array([kind.value for kind in ChangeType], pa.string())
_BACK: Final = pa.array([ChangeType.UPDATE_BEFORE.value, ChangeType.DELETE.value], pa.string())


def change_types(batch: pa.RecordBatch) -> pa.Array:
    """Return what each row does.

    Raises:
        SchemaMismatchError: the rows do not say.
        InvalidError: a row says something unknown.
    """
    if CHANGE_TYPE not in batch.schema.names:
        raise SchemaMismatchError(
            "rows to apply need a column that says what each does: +I, -U, +U, -D or +A", column=CHANGE_TYPE
        )
    kinds = batch.column(CHANGE_TYPE).cast(pa.string())
    wrong = pc.invert(pc.fill_null(pc.is_in(kinds, value_set=_KNOWN), False))
    if pc.any(wrong).as_py():
        row = pc.index(wrong, True).as_py()
        raise InvalidError(
            "unknown change type; there are +I, -U, +U, -D and +A", row=row, change_type=kinds[row].as_py()
        )
    return kinds


def retractions(kinds: pa.Array, values: Sequence[pa.Array]) -> Mask | None:
    """Tell which rows take their values back from an aggregate; None: none does.

    The image before an update may have another key than the one after it, where the changes of one
    table feed another; so it is asked only that there are some. Likewise a row may have had no values, so of
    deletes it is asked only that not all come without.

    Raises:
        UnsupportedError: updates or deletes come without the images before them.
    """
    before = pc.index(kinds, ChangeType.UPDATE_BEFORE.value).as_py()
    after = pc.index(kinds, ChangeType.UPDATE_AFTER.value).as_py()
    if after >= 0 > before:
        raise UnsupportedError(
            "an aggregate cannot follow updates (+U) without their images before (-U); "
            "read the changes with images='full', or call them +I if nothing is to be taken back",
            row=after,
        )
    deletes = pc.equal(kinds, ChangeType.DELETE.value)
    if before < 0 and pc.any(deletes).as_py() and not any(len(column.filter(deletes).drop_null()) for column in values):
        raise UnsupportedError(
            "an aggregate cannot follow deletes (-D) without the rows before them; "
            "read the changes with images='full', or leave out rows that had no values: there is nothing to take back",
            row=pc.index(deletes, True).as_py(),
        )
    back: Mask = pc.is_in(kinds, value_set=_BACK).to_numpy(zero_copy_only=False)
    return back if back.any() else None
