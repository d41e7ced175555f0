"""How a table is shared out among tasks: by bucket and partition, large buckets by ranges of offsets.

A plan outlives the moment it was made in, so a split names no cut. Partitions that are not there yet
when the plan is made are read by one more split for each bucket number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql.datasource import InputPartition

from penstock.model.node.calls import BucketStats
from penstock.model.place.bucket import TableBucket


class Split(InputPartition):
    """One task's part: offsets [start, end) of one bucket (end None: up to the cut)."""

    def __init__(self, bucket: TableBucket, start: int = 0, end: int | None = None) -> None:
        super().__init__((bucket, start, end))
        self.bucket = bucket
        self.start = start
        self.end = end

    def buckets(self, cut: Mapping[TableBucket, int]) -> list[TableBucket]:
        """Return the buckets of a cut that this task reads."""
        return [self.bucket] if self.bucket in cut else []


class LaterSplit(InputPartition):
    """One task's part: a bucket number in every partition that the plan does not know."""

    def __init__(self, number: int, known: frozenset[str]) -> None:
        super().__init__((number, known))
        self.number = number
        self.known = known
        self.start = 0
        self.end: int | None = None

    def buckets(self, cut: Mapping[TableBucket, int]) -> list[TableBucket]:
        """Return the buckets of a cut that this task reads."""
        return [bucket for bucket in cut if bucket.bucket == self.number and bucket.partition not in self.known]


def plan_splits(buckets: Iterable[BucketStats], split_rows: int, *, keyed: bool) -> list[InputPartition]:
    """Return a split for each bucket, several for one with more than `split_rows` rows.

    The splits of a bucket cover every offset there may ever be, for the plan may be run when the bucket has
    others. What is divided is where rows are now: a log table has none below its base, a keyed one may.
    """
    splits: list[InputPartition] = []
    for found in buckets:
        pieces = max(1, -(-found.live_rows // split_rows))
        low = found.bucket.first_offset(found.base) if keyed else found.base
        bounds = [low + (found.visible - low) * piece // pieces for piece in range(1, pieces)]
        ranges = zip([0, *bounds], [*bounds, None], strict=True)
        splits += [Split(found.bucket, start, end) for start, end in ranges]
    return splits


def later_splits(buckets: int, partitions: Iterable[str]) -> list[InputPartition]:
    """Return a split for each bucket number, for the partitions that are still to come."""
    known = frozenset(partitions)
    return [LaterSplit(number, known) for number in range(buckets)]
