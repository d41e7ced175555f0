"""The rule `first_row`: the first row of a key stays, later ones are ignored."""

from __future__ import annotations

import pyarrow as pa

from penstock.model.table.table import TableSpec
from penstock.tablet.merge.key_groups import KeyGroups
from penstock.tablet.merge.rule import Fetch, Merged, Request, complete, live_before, refresh


class FirstRow:
    """The first row written for a key is its row."""

    @classmethod
    def of(cls, table: TableSpec) -> FirstRow:
        """Return the rule of a table."""
        del table
        return cls()

    def merge(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> Merged:
        """Return the rows to store."""
        assert request.deletes is None
        merged = Merged(complete(request.rows, schema), groups, accept=~live_before(groups, None))
        old = request.refreshes(groups.live)
        return merged if old is None else refresh(merged, old, fetch, schema)
