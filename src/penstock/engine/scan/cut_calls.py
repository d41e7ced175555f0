"""The calls about cuts that the scan facet of a node answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.engine.scan.cuts import Cuts
from penstock.engine.scan.named_cuts import NamedCuts
from penstock.engine.table.open_table import OpenTable
from penstock.errors import InvalidError
from penstock.model.node.calls import Cut
from penstock.model.node.principal import ActsForPrincipal
from penstock.model.place.bucket import TableBucket


class CutCalls(ActsForPrincipal):
    """Opens and releases cuts for one principal. Thread-safe by the locks of the cuts."""

    def __init__(
        self, tables: Callable[[int], OpenTable], cuts: Cuts, named_cuts: NamedCuts, *, principal: str
    ) -> None:
        super().__init__(principal)
        self._tables = tables
        self._cuts = cuts
        self._named_cuts = named_cuts

    def open_cut(
        self,
        table_id: int,
        *,
        as_of: Mapping[TableBucket, int] | None = None,
        buckets: Sequence[TableBucket] | None = None,
    ) -> Cut:
        """Take and pin the present cut, or pin the one given."""
        return self._cuts.open(self._tables(table_id), as_of, buckets, principal=self._principal)

    def open_cut_at(self, table_id: int, timestamp_ms: int, *, buckets: Sequence[TableBucket] | None = None) -> Cut:
        """Pin the cut of a moment of the past."""
        table = self._tables(table_id)
        return self._cuts.open(table, None, buckets, timestamp_ms=timestamp_ms, principal=self._principal)

    def open_cuts(self, table_ids: Sequence[int]) -> list[Cut]:
        """Take and pin one cut of several tables, all of one moment.

        Raises:
            InvalidError: a table is named twice, or there is none.
            TableNotFoundError: a table was dropped.
        """
        if not 0 < len(table_ids) == len(set(table_ids)):
            raise InvalidError("name at least one table, and each once", table_ids=list(table_ids)[:20])
        cuts = self._cuts.open_together([self._tables(table_id) for table_id in table_ids], principal=self._principal)
        try:
            for table_id in table_ids:
                # One that was dropped meanwhile still shows its last view.
                self._tables(table_id)
        except BaseException:
            for cut in cuts:
                self._cuts.release(cut.cut_id)
            raise
        return cuts

    def release_cut(self, cut_id: str) -> None:
        """Unpin a cut; idempotent."""
        self._cuts.release(cut_id)

    def named_cut(self, table_id: int, name: str, ttl_ms: int) -> Cut:
        """Return the cut of that name, which the first to ask fixes."""
        return self._named_cuts.take(self._tables(table_id), name, ttl_ms, principal=self._principal)
