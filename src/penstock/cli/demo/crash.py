"""The crash of the job: caught when rows of an uncommitted micro-batch are visible, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.cli.demo.shop import REVENUE
from penstock.cli.demo.totals import NOTHING, ByDay, Total, differences, stored
from penstock.client.connection import Connection
from penstock.client.table import Table
from penstock.model.node.owner import OwnerInfo
from penstock.model.place.bucket import TableBucket
from penstock.model.place.change import ChangeType

Cut = Mapping[TableBucket, int]


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a killed micro-batch left: how many rows are visible, at which cut, and by how much the totals are wrong."""

    batch: int
    fence: int
    rows: int
    cut: Cut
    before: ByDay
    error: ByDay


class CrashWatch:
    """Looks at the job's owner over and over, and remembers the cut between two micro-batches."""

    def __init__(self, connection: Connection, revenue: Table) -> None:
        self._connection = connection
        self._revenue = revenue
        self._clean: tuple[int, Cut] | None = None

    def owner(self) -> OwnerInfo | None:
        """Return the job's owner of the revenue table, once there is one."""
        return next((owner for owner in self._connection.list_owners() if owner.table == REVENUE), None)

    def look(self) -> OwnerInfo | None:
        """Return the owner while rows of its open micro-batch are visible; else remember the cut without them."""
        first = self.owner()
        if first is not None and not first.rows_pending:
            cut = self._revenue.cut()
            second = self.owner()
            # Nothing pending before and after, and no commit in between: nothing of a micro-batch is in the cut.
            if second is not None and not second.rows_pending and second.committed_epoch == first.committed_epoch:
                self._clean = (second.committed_epoch, cut)
            first = second
        return first if first is not None and first.rows_pending and self._knows_before(first) else None

    def leftover(self) -> Leftover | None:
        """Return what the killed job left, once its last write has settled; None if it left nothing after all."""
        owner = self.owner()
        if owner is None or not owner.rows_pending or owner.open_epoch is None or not self._knows_before(owner):
            return None
        assert self._clean is not None
        cut = self._revenue.cut()
        before = stored(self._revenue.scan(as_of=self._clean[1]).to_arrow())
        after = stored(self._revenue.scan(as_of=cut).to_arrow())
        return Leftover(owner.open_epoch, owner.fence, owner.rows_pending, cut, before, differences(after, before))

    def undone(self, left: Leftover) -> int:
        """Return how many of the wrong totals were put back, by the first change to each since the crash."""
        first: ByDay = {}
        for batch in self._revenue.changes(start=left.cut, images="full"):
            for row in batch.to_pylist():
                if row["_change_type"] != ChangeType.UPDATE_BEFORE.value:
                    gone = row["_change_type"] == ChangeType.DELETE.value
                    total = NOTHING if gone else Total(row["revenue"], row["orders"])
                    first.setdefault((row["city"], row["day"]), total)
        return sum(key in first and first[key] == left.before.get(key, NOTHING) for key in left.error)

    def _knows_before(self, owner: OwnerInfo) -> bool:
        return self._clean is not None and self._clean[0] == owner.committed_epoch
