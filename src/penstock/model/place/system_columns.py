"""The columns that Penstock adds to those of a table: to changes as users read them, to lookups, to stored rows."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.model.place.change import OFFSET, OP, PREV

CHANGE_TYPE: Final = "_change_type"
TIMESTAMP: Final = "_timestamp"
BUCKET: Final = "_bucket"
PARTITION: Final = "_partition"
FOUND: Final = "_found"

OFFSET_COLUMN: Final = pa.field(OFFSET, pa.int64(), nullable=False)
"""Where a change is, and where a row began."""
SYSTEM_COLUMNS: Final = (
    pa.field(CHANGE_TYPE, pa.string(), nullable=False),
    OFFSET_COLUMN,
    pa.field(TIMESTAMP, pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field(BUCKET, pa.int32(), nullable=False),
)
"""What a change has after the columns of its table, in this order."""
PARTITION_COLUMN: Final = pa.field(PARTITION, pa.string(), nullable=False)
"""What a change of a partitioned table has after that."""

RESERVED_NAMES: Final = frozenset((OP, PREV, OFFSET, TIMESTAMP, BUCKET, PARTITION, CHANGE_TYPE, FOUND))
"""Names that no column of a table may have."""


def system_columns(*, partitioned: bool) -> tuple[pa.Field, ...]:
    """Return what a change has after the columns of its table."""
    return (*SYSTEM_COLUMNS, PARTITION_COLUMN) if partitioned else SYSTEM_COLUMNS
