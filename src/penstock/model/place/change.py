"""A change: what a stored row is besides its columns.

A stored change row is the after-image plus `_op` and `_prev` (the offset of the row that it
replaces, or -1). Rewritten files also store `_offset`; elsewhere offsets are dense and implied.
User columns are stored under their column id in decimal (`"3"`), so that names may be anything.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

import pyarrow as pa

OFFSET_MAX: Final = (1 << 63) - 1
"""The end of a row that is still live."""

NO_OFFSET: Final = -1
"""`_prev` of an insert; the index's answer for an absent key."""

OP: Final = "_op"
PREV: Final = "_prev"
OFFSET: Final = "_offset"
SYSTEM_FIELDS: Final = (pa.field(OP, pa.int8(), nullable=False), pa.field(PREV, pa.int64(), nullable=False))


class Op(IntEnum):
    """What a stored change did to its key."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2


class ChangeType(StrEnum):
    """How a change reads in a changelog."""

    INSERT = "+I"
    UPDATE_BEFORE = "-U"
    UPDATE_AFTER = "+U"
    DELETE = "-D"
    APPEND = "+A"


class BatchKind(IntEnum):
    """Why a log batch was written."""

    DATA = 0
    UNDO = 1
    STAGED_COMMIT = 2
    EMPTY = 3
    ORPHAN = 4
    """An undo that took back the creation of a row which lives on because of others."""
    ATTEMPT_END = 5
