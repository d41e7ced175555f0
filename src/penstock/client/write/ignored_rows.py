"""Rows that a write ignored, and why: the rules of its table took them for nothing new."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.model.node.calls import Operation, WriteResult
from penstock.model.table.merge_engine import DeleteBehavior, MergeEngine
from penstock.model.table.table import TableInfo

_UPSERTS: Final = {
    MergeEngine.FIRST_ROW: "key exists",
    MergeEngine.VERSIONED: "older version",
    MergeEngine.AGGREGATE: "nothing changed",
    MergeEngine.LAST_ROW: "nothing changed",
}


def explained(
    result: WriteResult, info: TableInfo, operation: Operation, columns: tuple[str, ...] | None = None
) -> WriteResult:
    """Return what a write did with the reason why rows were ignored, if some were."""
    if not result.ignored:
        return result
    reason = "another attempt had ended" if result.done else _reason(info, operation, columns)
    return replace(result, ignored_because=reason)


def _reason(info: TableInfo, operation: Operation, columns: tuple[str, ...] | None) -> str:
    if operation is Operation.UPSERT and info.merge_engine is not None:
        return _UPSERTS[info.merge_engine]
    if operation is Operation.DELETE:
        if info.options.delete_behavior is DeleteBehavior.IGNORE:
            return "delete.behavior is ignore"
        return "absent key" if columns is None else "absent key or nothing to clear"
    return "nothing changed"
