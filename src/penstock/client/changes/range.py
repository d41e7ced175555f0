"""From where to where a change stream reads: every way to say it, as offsets of each bucket.

A mapping of offsets is a cut: a bucket that it does not name did not exist then, nor did one that has
the name of a partition dropped since. So as a start it means that the bucket is read from its first
change on, as an end that it is not read. A start in a partition that was dropped since must be at its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeGuard

from penstock.client.cut.as_of import is_moment_text, moment_ms
from penstock.client.cut.cut import Cut, CutLike, resolve_cut
from penstock.client.cut.stream_position import StreamPosition
from penstock.client.link.link import Link
from penstock.client.link.origin_check import check_position
from penstock.errors import InvalidError, OffsetOutOfRangeError
from penstock.model.node.calls import Offsets
from penstock.model.node.log_state import LogState, dropped_unread
from penstock.model.place.bucket import TableBucket
from penstock.model.table.table import TableInfo


class NamedStart(StrEnum):
    """Where a change stream begins: at the oldest change that is kept, or after the newest."""

    EARLIEST = "earliest"
    LATEST = "latest"


EARLIEST = NamedStart.EARLIEST
LATEST = NamedStart.LATEST

StartLike = NamedStart | datetime | CutLike


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
    if start == NamedStart.EARLIEST:
        return {bucket: offsets.base for bucket, offsets in known.items()}
    if start == NamedStart.LATEST:
        return {bucket: offsets.end for bucket, offsets in known.items()}
    start = _moment(start)
    if isinstance(start, datetime):
        return _starts_at(link, info, start, known, lease_id)
    if is_position(start):
        position = decode_position(link, info, start)
        named, births = position.bucket_offsets(info.path), position.births
    elif isinstance(start, Mapping):
        named = resolve_cut(link, info, start, "start")
        births = start.births if isinstance(start, Cut) else None
    else:
        raise InvalidError(
            "a start is penstock.EARLIEST, penstock.LATEST, a cut, a datetime or a stream's position",
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
    link: Link,
    info: TableInfo,
    end: CutLike | None,
    state: LogState,
    starts: Mapping[TableBucket, int],
    *,
    only: Collection[TableBucket] | None,
    follow: bool,
) -> dict[TableBucket, int | None]:
    """Return the offset at which each bucket ends that is there; None: it goes on for ever.

    `starts` has what the start names of buckets that are not there any more: it was read.

    Raises:
        InvalidError: `end` is not offsets of this table's buckets, or leaves some of a partition out.
        PartitionNotFoundError: it names a partition that is not there (any more), and was not read before.
        OffsetOutOfRangeError: it is not yet written, and the stream does not follow.
    """
    known = state.offsets
    if end is None:
        return {bucket: None if follow else offsets.end for bucket, offsets in known.items()}
    named = {bucket: at for bucket, at in resolve_cut(link, info, end, "end").items() if only is None or bucket in only}
    for bucket, at in named.items():
        start, gone = starts.get(bucket, bucket.first_offset(at)), state.gone_with(bucket, at)
        if not state.has(bucket, at) and (start < at or (gone is None and bucket not in starts)):
            raise dropped_unread(bucket, start, gone)
        if not follow and bucket in known and at > known[bucket].end:
            raise OffsetOutOfRangeError(
                "the end is beyond the bucket's end; use follow=True to wait for it",
                bucket=bucket,
                offset=at,
                end=known[bucket].end,
            )
    require_whole_partitions(named, known)
    return {bucket: named.get(bucket, 0) for bucket in known}


def require_whole_partitions(named: Mapping[TableBucket, int], there: Iterable[TableBucket]) -> None:
    """Refuse an end that leaves out a bucket; a partition that it does not name at all was born after it.

    Raises:
        InvalidError: names the first bucket that is left out.
    """
    partitions = {bucket.partition for bucket in named} | {None}
    for bucket in there:
        if bucket not in named and bucket.partition in partitions:
            raise InvalidError("end names every bucket; add it, or choose others by buckets=", bucket=bucket)


def _moment(start: StartLike) -> StartLike:
    """Return a start that is the text of a moment as that moment, any other as it is.

    Raises:
        InvalidError: the text names no zone: text alone does not say which is meant.
    """
    if not is_moment_text(start):
        return start
    try:
        found = datetime.fromisoformat(str(start).strip())
    except ValueError:
        return start
    moment_ms(found)
    return found


def named_offsets(link: Link, info: TableInfo, start: StartLike) -> Mapping[TableBucket, int]:
    """Return the offsets that a start names, none if it is another kind of start."""
    if is_position(start):
        return decode_position(link, info, start).bucket_offsets(info.path)
    return resolve_cut(link, info, start, "start") if isinstance(start, Mapping) else {}


def is_position(start: StartLike) -> TypeGuard[str]:
    """Tell whether a start is a stream's stored position."""
    return isinstance(start, str) and start.lstrip().startswith("{")


def decode_position(link: Link, info: TableInfo, text: str) -> StreamPosition:
    """Return a stored position of a stream over this table, or a cut of it as one.

    Raises:
        InvalidError: it is none, or of another table or database.
    """
    position = StreamPosition.decode(text)
    offsets = position.bucket_offsets(info.path)
    check_position(
        link,
        info,
        "position",
        database=position.database,
        table_id=position.table_id,
        offsets=offsets,
        births=position.births,
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
    first = link.retry.run(
        lambda: link.node.changes.offsets(info.table_id, timestamp_ms=timestamp_ms, lease_id=lease_id)
    )
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
