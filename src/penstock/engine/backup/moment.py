"""One moment of all tables: the views of all buckets, none of which sees a write that another is too early for.

Each table's committer holds its writes back until all of them do; then the views are taken, and everyone goes on. The
committers are stopped in the order of the tables' ids, so that two who do this do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.engine.table.open_table import OpenTable
from penstock.errors import TableNotFoundError
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.tablet.schema import TabletSchema
from penstock.tablet.view.view import TabletView


@dataclass(frozen=True, slots=True)
class BucketMoment:
    """A bucket at a moment: its view, and from its state what a manifest of these rows has to say."""

    view: TabletView
    complete_from: int
    timestamp_ms: int
    before_base_ms: int | None


@dataclass(frozen=True, slots=True)
class TableMoment:
    """A table at a moment. `away` are buckets that this node does not lead: they cannot be read here."""

    table: OpenTable
    schema: TabletSchema
    buckets: dict[TableBucket, BucketMoment]
    away: tuple[TableBucket, ...]

    def ids(self) -> list[BucketId]:
        """Return the ids of the buckets."""
        return [bucket.view.bucket for bucket in self.buckets.values()]


def take_moment(tables: Sequence[OpenTable]) -> list[TableMoment]:
    """Return all tables as they are at one moment; without those that are dropped by then."""
    ordered = sorted(tables, key=lambda table: table.info.table_id)
    known = {table.info.table_id: table.buckets() for table in ordered}
    taken: list[TableMoment] = []

    def stop(number: int) -> None:
        if number == len(ordered):
            taken.extend(_taken(table, known[table.info.table_id]) for table in stopped)
            return
        reached = False

        def step() -> None:
            nonlocal reached
            reached = True
            stopped.append(ordered[number])
            stop(number + 1)

        try:
            ordered[number].committer.run(step)
        except TableNotFoundError:
            if reached:
                raise
            stop(number + 1)

    stopped: list[OpenTable] = []
    stop(0)
    return taken


def _taken(table: OpenTable, known: Sequence[TableBucket]) -> TableMoment:
    view, tablets = table.view, table.committer.tablets
    buckets: dict[TableBucket, BucketMoment] = {}
    for bucket, found in view.items():
        name = table.find_name(bucket)
        if name is not None:
            state = tablets[bucket].state
            buckets[name] = BucketMoment(found, state.complete_from, state.timestamp_ms, state.before_base_ms)
    # Names come and go outside of the committer: only one that was there before and still is has a bucket elsewhere.
    away = tuple(name for name in known if name not in buckets and table.find_id(name) is not None)
    return TableMoment(table, table.schema, buckets, away)
