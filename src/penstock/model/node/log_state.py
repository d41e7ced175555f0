"""Where the logs of a table begin and end: of the partitions that are there, and of those dropped of late.

A reader with a position in a log needs both: whether a dropped partition was read to its end cannot be told
from what is left. Partition ids are given in order and never twice, so `births`, the next one to be given,
also tells which partitions a reader cannot have seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import PartitionNotFoundError
from penstock.model.node.calls import Offsets
from penstock.model.place.bucket import TableBucket, life_start


@dataclass(frozen=True, slots=True)
class GonePartition:
    """A dropped partition: where the logs of its buckets began and ended.

    `bases` is from where on each bucket can still be read, as long as a reader is there (None: there is none).
    """

    partition_id: int
    name: str
    first_offset: int
    ends: tuple[int, ...]
    dropped_ms: int
    bases: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is stored of it, as JSON values."""
        return {
            "name": self.name,
            "first_offset": self.first_offset,
            "ends": list(self.ends),
            "dropped_ms": self.dropped_ms,
        }

    @classmethod
    def from_json(cls, partition_id: int, stored: Mapping[str, Any]) -> GonePartition:
        """Return the partition that JSON values describe."""
        return cls(partition_id, stored["name"], stored["first_offset"], tuple(stored["ends"]), stored["dropped_ms"])


@dataclass(frozen=True, slots=True)
class LogState:
    """The logs of a table at one moment: `away` are buckets that no node leads just now."""

    offsets: Mapping[TableBucket, Offsets]
    births: int
    gone: tuple[GonePartition, ...] = ()
    away: tuple[TableBucket, ...] = ()

    def has(self, bucket: TableBucket, offset: int) -> bool:
        """Tell whether an offset is one of a log that is there, or of a later one."""
        known = self.offsets.get(bucket)
        return bucket in self.away if known is None else offset >= bucket.first_offset(known.base)

    def base(self, bucket: TableBucket, offset: int) -> int | None:
        """Return from where on the log of an offset can be read; None if it went with its partition."""
        known = self.offsets.get(bucket)
        if known is not None and offset >= bucket.first_offset(known.base):
            return known.base
        gone = self.gone_with(bucket, offset)
        return None if gone is None or gone.bases is None else gone.bases[bucket.bucket]

    def first_kept(self, bucket: TableBucket, offset: int) -> int:
        """Return from where on the log of an offset can be read.

        Raises:
            PartitionNotFoundError: it went with its partition.
        """
        base = self.base(bucket, offset)
        if base is None:
            first = bucket.first_offset(offset)
            raise dropped_unread(bucket, first, self.gone_with(bucket, offset))
        return base

    def gone_with(self, bucket: TableBucket, offset: int) -> GonePartition | None:
        """Return the dropped partition whose bucket had this offset, None if nothing is known of it."""
        return gone_with(self.gone, bucket, offset)

    def unread(
        self, path: str, named: Mapping[TableBucket, int], births: int | None
    ) -> Iterator[tuple[TableBucket, int, GonePartition]]:
        """Yield what dropped partitions have beyond `named`: bucket, offset and partition, in the order of lives.

        A bucket that is not named was not there when `births` was the next id; without `births` it does not count.
        """
        for gone in sorted(self.gone, key=lambda gone: (gone.first_offset, gone.partition_id)):
            for number, end in enumerate(gone.ends):
                bucket = TableBucket(path, gone.name, number)
                at = named.get(bucket)
                if at is None and (births is None or gone.partition_id < births):
                    continue
                at = max(at or 0, gone.first_offset)
                # Who stands in a later life has passed this one.
                if life_start(at) == gone.first_offset and at < end:
                    yield bucket, at, gone

    def awaited(self, path: str, stands: Mapping[TableBucket, int], births: int, before: int | None) -> int:
        """Return the id from which on a reader at that position awaits partitions; it has not heard of `births` yet.

        One that waits for the end of an earlier life of its name is not protected by where the reader stands, and may
        be dropped before its turn. While it is not dropped its id is not known here, but it is not below `before`,
        what was awaited so far.
        """
        for bucket, offsets in self.offsets.items():
            if bucket in stands and bucket.first_offset(stands[bucket]) < bucket.first_offset(offsets.base):
                births = min(births, before or 0)
        waiting = [
            gone.partition_id
            for bucket, _, gone in self.unread(path, stands, None)
            if gone.first_offset > bucket.first_offset(stands[bucket])
        ]
        return min([births, *waiting])

    def check_read(self, path: str, named: Mapping[TableBucket, int], births: int | None) -> None:
        """Refuse offsets that a dropped partition had changes beyond, or may have had.

        Raises:
            PartitionNotFoundError: names the partition, the offset and its end.
        """
        for bucket, at, gone in self.unread(path, named, births):
            raise dropped_unread(bucket, at, gone)
        for bucket, at in named.items():
            if not self.has(bucket, at) and self.gone_with(bucket, at) is None:
                raise dropped_unread(bucket, at, None)


def gone_with(gone: tuple[GonePartition, ...], bucket: TableBucket, offset: int) -> GonePartition | None:
    """Return the dropped partition whose bucket had this offset, None if nothing is known of it."""
    first = life_start(offset)
    return next((p for p in gone if p.name == bucket.partition and p.first_offset == first), None)


def dropped_unread(bucket: TableBucket, offset: int, gone: GonePartition | None) -> PartitionNotFoundError:
    """Return the error for changes that went with their partition, or may have (None: where it ended is unknown)."""
    if gone is None:
        return PartitionNotFoundError(
            "there is no such partition, nor is it known where one ended; start from a new scan, or at EARLIEST",
            partition=bucket.partition,
            bucket=bucket,
            offset=offset,
        )
    return PartitionNotFoundError(
        "the partition was dropped, and changes that were not read went with it; start from a new scan, or at EARLIEST",
        partition=bucket.partition,
        bucket=bucket,
        offset=offset,
        end=gone.ends[bucket.bucket],
    )
