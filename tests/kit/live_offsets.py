"""The offset of every live row, as the changelog has it: what a conditional write may expect."""

from __future__ import annotations

from typing import Any

import penstock

Key = tuple[Any, ...]


def live_offsets(table: penstock.Table) -> dict[Key, int]:
    """Return the offset of each live row by its key."""
    found: dict[Key, int] = {}
    for batch in table.changes():
        for row in batch.to_pylist():
            key = tuple(row[name] for name in table.info.primary_key)
            if row["_change_type"] == "-D":
                del found[key]
            elif row["_change_type"] != "-U":
                found[key] = row["_offset"]
    return found
