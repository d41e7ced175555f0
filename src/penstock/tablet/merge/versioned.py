"""The rule `versioned`: a row with a greater or equal version wins; a null version loses to any row.

A writer may not know the newest columns: these keep the values of the row that is replaced.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.table.table import TableSpec
from penstock.tablet.merge.key_groups import KeyGroups
from penstock.tablet.merge.rule import Fetch, Merged, Request, complete, defaulted, live_before, refresh


class Versioned:
    """The row with the greatest version is a key's row."""

    def __init__(self, version_column: int) -> None:
        self._name = str(version_column)

    @classmethod
    def of(cls, table: TableSpec) -> Versioned:
        """Return the rule of a table."""
        assert table.version_column is not None
        return cls(table.schema.column(table.version_column).id)

    def merge(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> Merged:
        """Return the rows to store."""
        assert request.deletes is None
        there = groups.live >= 0
        unknown = [field for field in schema if field.name not in request.rows.schema.names]
        old = fetch(groups.live[there], pa.schema([schema.field(self._name), *unknown]))
        incoming = request.rows.column(self._name)
        # Incoming and stored versions are ranked together, so that their ranks compare.
        ranks = _ranks(pa.concat_arrays([incoming, old.column(0)]))
        rank, old_rank = ranks[: len(incoming)], np.full(groups.count, -1, np.int64)
        old_rank[there] = ranks[len(incoming) :]
        # Ranks lie between -1 and len(ranks), so `bound` is more than any two of them differ by.
        best = _best_before(rank[groups.order], old_rank, groups, bound=len(ranks) + 2)
        accept = np.empty(len(rank), np.bool_)
        # The maximum with 0 refuses a null version (-1) even where the best so far is null, too: a null wins against
        # no row, and only creates one where the key is absent.
        accept[groups.order] = rank[groups.order] >= np.maximum(best, 0)
        accept |= ~live_before(groups, None)
        rows = request.rows
        if unknown:
            # `old` has rows of live keys only; this is each row's place in it, null where the key was absent.
            replaced = pa.array(np.cumsum(there) - 1, mask=~there).take(pa.array(groups.group_of_row))
            new = ~there[groups.group_of_row]
            for field in unknown:
                rows = rows.append_column(field, defaulted(old.column(field.name).take(replaced), field, new))
        merged = Merged(complete(rows, schema), groups, accept=accept)
        aged = request.refreshes(groups.live)
        if aged is not None:
            won = np.zeros(groups.count, np.bool_)
            won[groups.group_of_row[accept]] = True
            aged &= ~won
        return refresh(merged, aged, fetch, schema) if aged is not None and aged.any() else merged


def _ranks(versions: pa.Array) -> npt.NDArray[np.int64]:
    """Return dense ranks, equal versions alike, -1 for null: order without knowing the type."""
    ranks = pc.rank(versions, sort_keys="ascending", tiebreaker="dense")
    ranked: npt.NDArray[np.int64] = ranks.to_numpy(zero_copy_only=False).astype(np.int64)
    nulls = versions.is_null().to_numpy(zero_copy_only=False)
    ranked[nulls] = -1
    return ranked


def _best_before(
    ordered: npt.NDArray[np.int64], old: npt.NDArray[np.int64], groups: KeyGroups, bound: int
) -> npt.NDArray[np.int64]:
    """Return for each row, in key order, the greatest rank that its key had before it."""
    before = np.empty(len(ordered), np.int64)
    before[1:] = ordered[:-1]
    before[groups.starts] = old
    # A running maximum over all rows restarts at each key, because keys are lifted apart by `bound`.
    lift = groups.group * bound
    return np.maximum.accumulate(before + lift) - lift
