"""Alter an open table: one step of its committer, so that no write and no cut is in the middle of it.

1. The new definition is made and checked; owners that hold a column which goes or changes its type refuse it.
2. The growing segments are finished: a segment has the columns of one schema.
3. The catalog takes the definition. That is the alteration: before it a crash leaves the table as it was, behind it
   the table is the new one, and no batch of the new schema can be older.
4. Writers, rules and readers that come now go by it.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.table.open_table import OpenTable
from penstock.model.table.table import TableInfo

Change = Callable[[TableInfo], TableInfo]


def alter_table(table: OpenTable, catalog: Catalog, change: Change) -> TableInfo:
    """Alter a table; return it as it is then.

    Raises:
        PenstockError: as `change` has it; nothing was altered.
        LockedError: an owner holds a column that goes or changes its type, or has rows of it staged.
        BucketFailedError: a log could not be finished; nothing was altered.
        TableNotFoundError: the table was dropped.
    """

    def step() -> TableInfo:
        before = catalog.table_by_id(table.info.table_id)
        after = change(before)
        if after == before:
            return before
        guard = table.committer.guard
        if guard is not None:
            guard.check_alteration(before, after)
        if after.schema_id != before.schema_id:
            _finish_segments(table)
        catalog.replace(before, after)
        table.take_info(after)
        return after

    return table.exclusively(step)


def _finish_segments(table: OpenTable) -> None:
    for tablet in table.committer.tablets.values():
        if tablet.standing.takes_writes:
            tablet.roll()
