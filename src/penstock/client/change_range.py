"""From where to where a change stream reads: every way to say it, as offsets of each bucket.

A mapping of offsets is a cut: a bucket that it does not name did not exist then, nor did one that has
the name of a partition dropped since. So as a start it means that the bucket is read from its first
change on, as an end that it is not read. A start in a partition that was dropped since must be at its end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeGuard

from penstock.client.buckets import OffsetsByBucket, resolve_offsets
from penstock.client.link import Link
from penstock.client.stream_position import StreamPosition
from penstock.errors import InvalidError, OffsetOutOfRangeError
from penstock.model.bucket import TableBucket
from penstock.model.calls import Offsets
from penstock.model.log_state import LogState
from penstock.model.table import TableInfo


class Start(StrEnum):
    """Where a change stream begins: at the oldest change that is kept, or after the newest."""

    EARLIEST = "earliest"
    LATEST = "latest"


EARLIEST = Start.EARLIEST
LATEST = Start.LATEST

StartLike = Start | str | datetime | OffsetsByBucket


def resolve_starts(
    link: Link,
    info: TableInfo,
    start: StartLike,
    state: LogState,
    *,
    only: Collection[TableBucket] | None = None,
    lease_id: str | None = None,
) -> dict[TableBucket, int]:
    """Return the offset at which each bucket begins that is there; of the start only some buckets may count.

    Raises:
        InvalidError: the start is not understood, or of another table.
        OffsetOutOfRangeError: an offset is no longer kept, or not yet written.
        PartitionNotFoundError: an offset is of a partition that was dropped, and below its end, or of none.
    """
    known, births = state.offsets, None
    if start == Start.EARLIEST:
        return {bucket: offsets.base for bucket, offsets in known.items()}
    if start == Start.LATEST:
        return {bucket: offsets.end for bucket, offsets in known.items()}
    if isinstance(start, datetime):
        return _starts_at(link, info, start, known, lease_id)
    if is_position(start):
        position = decode_position(info, start)
        named, births = position.bucket_offsets(info.path), position.births
    elif isinstance(start, Mapping):
        named = resolve_offsets(info, start)
    else:
        raise InvalidError(
            "a start is penstock.EARLIEST, penstock.LATEST, offsets by bucket, a datetime or a stream's position",
            start=repr(start),
        )
    if only is not None:
        named = {bucket: at for bucket, at in named.items() if bucket in only}
        state = replace(state, gone=tuple(gone for gone in state.gone if gone.name in {b.partition for b in only}))
    gone = [bucket for bucket in named if bucket not in known]
    if lease_id is not None and gone:
        raise InvalidError("the lease does not hold that bucket", lease_id=lease_id, bucket=gone[0])
    if lease_id is None:
        state.check_read(info.path, named, births)
    starts = {bucket: max(named.get(bucket, 0), bucket.first_offset(offsets.base)) for bucket, offsets in known.items()}
    _check_readable(starts, known)
    return starts


def resolve_ends(
    info: TableInfo,
    end: OffsetsByBucket | None,
    known: Mapping[TableBucket, Offsets],
    *,
    follow: bool,
) -> dict[TableBucket, int | None]:
    """Return the offset at which each known bucket ends; None: it goes on for ever.

    Raises:
        InvalidError: `end` is not offsets of this table's buckets.
    """
    if end is None:
        return {bucket: None if follow else offsets.end for bucket, offsets in known.items()}
    named = resolve_offsets(info, end)
    ends = {bucket: named.get(bucket, 0) for bucket in known}
    return {bucket: at if follow else min(at, known[bucket].end) for bucket, at in ends.items()}


def is_position(start: StartLike) -> TypeGuard[str]:
    """Tell whether a start is a stream's stored position."""
    return isinstance(start, str) and start.lstrip().startswith("{")


def decode_position(info: TableInfo, text: str) -> StreamPosition:
    """Return a stored position of a stream over this table.

    Raises:
        InvalidError: it is none, or of another table.
    """
    position = StreamPosition.decode(text)
    if position.table_id != info.table_id:
        raise InvalidError(
            "the position is of another table", table=info.path, table_id=info.table_id, found=position.table_id
        )
    return position


def _starts_at(
    link: Link, info: TableInfo, moment: datetime, known: Mapping[TableBucket, Offsets], lease_id: str | None
) -> dict[TableBucket, int]:
    # Python's own rule: a datetime without zone is local time. Rounded up, for earlier changes are not wanted.
    try:
        timestamp_us = (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    except (OverflowError, ValueError) as error:
        raise InvalidError("the start is outside the years 1 to 9999 of UTC", start=repr(moment)) from error
    timestamp_ms = max(0, -(-timestamp_us // 1000))
    first = link.retry.run(lambda: link.node.offsets(info.table_id, timestamp_ms=timestamp_ms, lease_id=lease_id))
    return {
        bucket: first[bucket].base if bucket in first else bucket.first_offset(offsets.base)
        for bucket, offsets in known.items()
    }


def _check_readable(starts: Mapping[TableBucket, int], known: Mapping[TableBucket, Offsets]) -> None:
    for bucket, start in starts.items():
        base, end = known[bucket]
        if start < base:
            raise OffsetOutOfRangeError(
                "changes before the base are no longer kept; take a snapshot and follow it, or start at EARLIEST",
                bucket=bucket,
                offset=start,
                base=base,
            )
        if start > end:
            raise OffsetOutOfRangeError(
                "the start is beyond the bucket's end; use offsets of this table", bucket=bucket, offset=start, end=end
            )
