"""How a bucket is named: by path for users, by number for everything stored.

A partition's name may come back after a drop; its offsets may not, for everything outside the node names
buckets by partition name. So the offsets of partitions are cut into *lives*: each partition has the offsets
of one life, and no two partitions of a name have the same. Any offset tells which life it belongs to.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from penstock.model.place.change import OFFSET_MAX

LIFE_OFFSETS: Final = 1 << 40
"""How many offsets a life has: a bucket of a partition takes fewer changes than that."""

_PREFIX: Final = struct.Struct(">IIH")


def life_start(offset: int) -> int:
    """Return the first offset of the life that an offset belongs to."""
    return offset - offset % LIFE_OFFSETS


class TableBucket(NamedTuple):
    """One bucket of a table, as users name it: path, partition name or None, number."""

    table: str
    partition: str | None
    bucket: int

    def first_offset(self, offset: int) -> int:
        """Return where the log begins, or began, that has this offset.

        What stands before it stands in the log of an earlier partition of the name, or in none.
        """
        return 0 if self.partition is None else life_start(offset)

    def __repr__(self) -> str:
        inside = "" if self.partition is None else f"/{self.partition}"
        return f"TableBucket({self.table}{inside}#{self.bucket})"

    def __str__(self) -> str:
        inside = "" if self.partition is None else f"/{self.partition}"
        return f"{self.table}{inside}#{self.bucket}"


def bucket_key(bucket: TableBucket) -> str:
    """Return how JSON names a bucket of a table that is known: its number, behind its partition if it has one."""
    return str(bucket.bucket) if bucket.partition is None else f"{bucket.partition}/{bucket.bucket}"


class BucketId(NamedTuple):
    """One bucket of a table, as it is stored: ids are never reused, names may be.

    An unpartitioned table has the one partition id 0.
    """

    table_id: int
    partition_id: int
    bucket: int

    def prefix(self) -> bytes:
        """Return the 10 bytes that open every index key of this bucket; order-preserving."""
        return _PREFIX.pack(self.table_id, self.partition_id, self.bucket)

    @classmethod
    def from_prefix(cls, prefix: bytes) -> BucketId:
        """Return the bucket whose prefix this is."""
        return cls(*_PREFIX.unpack(prefix))

    def first_offset(self, offset: int) -> int:
        """Return where the log begins that has this offset."""
        return 0 if self.partition_id == 0 else life_start(offset)

    def offset_max(self, offset: int) -> int:
        """Return where the log that has this offset ends at the latest."""
        return OFFSET_MAX if self.partition_id == 0 else life_start(offset) + LIFE_OFFSETS - 1

    def directory(self) -> str:
        """Return the bucket's directory, relative to the data directory."""
        return f"tables/{self.table_id}/{self.partition_id}/{self.bucket}"

    def __str__(self) -> str:
        return self.directory()
