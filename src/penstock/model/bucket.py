"""How a bucket is named: by path for users, by number for everything stored."""

from __future__ import annotations

import struct
from typing import NamedTuple


class TableBucket(NamedTuple):
    """One bucket of a table, as users name it: path, partition name or None, number."""

    table: str
    partition: str | None
    bucket: int

    def __repr__(self) -> str:
        inside = "" if self.partition is None else f"/{self.partition}"
        return f"TableBucket({self.table}{inside}#{self.bucket})"

    def __str__(self) -> str:
        inside = "" if self.partition is None else f"/{self.partition}"
        return f"{self.table}{inside}#{self.bucket}"


class BucketId(NamedTuple):
    """One bucket of a table, as it is stored: ids are never reused, names may be.

    An unpartitioned table has the one partition id 0.
    """

    table_id: int
    partition_id: int
    bucket: int

    def prefix(self) -> bytes:
        """Return the 10 bytes that open every index key of this bucket; order-preserving."""
        return struct.pack(">IIH", self.table_id, self.partition_id, self.bucket)

    def directory(self) -> str:
        """Return the bucket's directory, relative to the data directory."""
        return f"tables/{self.table_id}/{self.partition_id}/{self.bucket}"

    def __str__(self) -> str:
        return self.directory()
