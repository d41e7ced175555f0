"""What a log batch says of the group that it was committed in: its number, and the buckets that have a part.

Groups of a table are numbered in the order of their commits. The buckets are stored as runs, so that a load over
all buckets of many partitions names them in a few bytes: (partition, bucket, buckets, partitions), a rectangle
of that many buckets from `bucket` on, in each of that many partitions from `partition` on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_RUN: Final = struct.Struct("<IIII")
MEMBER_BYTES: Final = _RUN.size

Place = tuple[int, int]
"""A partition's id and the number of a bucket in it."""


class GroupMark(NamedTuple):
    """The group of a batch. `members` are its buckets, encoded; none if it has only this one.

    `goes_on`: more batches of the group follow in this bucket.
    """

    number: int
    members: bytes = b""
    goes_on: bool = False


NO_GROUP: Final = GroupMark(-1)
"""The group of a batch that does not name one."""


def encode_members(places: Iterable[Place]) -> bytes:
    """Return the buckets of a group as they are stored."""
    runs: list[list[int]] = []
    for partition, bucket in sorted(places):
        if runs and runs[-1][0] == partition and runs[-1][1] + runs[-1][2] == bucket:
            runs[-1][2] += 1
        else:
            _join_last(runs)
            runs.append([partition, bucket, 1, 1])
    _join_last(runs)
    return b"".join(_RUN.pack(*run) for run in runs)


def _join_last(runs: list[list[int]]) -> None:
    """Make one of the last two runs if the last is the next partition's and has the same buckets."""
    if len(runs) > 1 and runs[-1][1:3] == runs[-2][1:3] and runs[-1][0] == runs[-2][0] + runs[-2][3]:
        runs[-2][3] += 1
        runs.pop()


def decode_members(members: bytes) -> Iterator[Place]:
    """Yield the buckets of a group."""
    for partition, bucket, buckets, partitions in _RUN.iter_unpack(members):
        for along in range(partition, partition + partitions):
            for number in range(bucket, bucket + buckets):
                yield along, number
