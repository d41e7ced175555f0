"""The cut of a table at a moment of the past: in each bucket, the first offset with a later timestamp.

All changes of a group of writes have one timestamp, and no write has an earlier one than those before it, so a cut at
a moment splits no call. It is looked for in the committer, between two groups: every write of the moment is there,
and none is added to it later. What cannot be told any more is refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.pins import not_led
from penstock.errors import InvalidError, OffsetOutOfRangeError, PartitionNotFoundError
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.tablet.tablet import Tablet


class PastCut(NamedTuple):
    """The offsets of a moment, and the id of the next partition when they were looked for."""

    offsets: Mapping[TableBucket, int]
    births: int


def past_cut(table: OpenTable, timestamp_ms: int, buckets: Collection[TableBucket] | None = None) -> PastCut:
    """Return the cut of some buckets (None: all) at a moment. A bucket that was born later is empty at it.

    Raises:
        InvalidError: the moment is in the future.
        OffsetOutOfRangeError: it is before the oldest that a bucket can still show.
        PartitionNotFoundError: a partition went since.
        NotLeaderError: a bucket is not led here.
    """
    wanted = table.buckets() if buckets is None else list(buckets)
    ids = {table.bucket_id(name): name for name in wanted} if buckets is not None else None
    found = table.committer.run(lambda: _at(table, timestamp_ms, ids))
    for name in wanted:
        if name not in found.offsets and table.find_id(name) is not None:
            raise not_led(name)
    return found


def _at(table: OpenTable, timestamp_ms: int, ids: Mapping[BucketId, TableBucket] | None) -> PastCut:
    """Look for the cut; inside a step of the committer."""
    # Without the table's lock: who changes the table holds it, and waits for this very thread.
    now_ms = table.committer.stamp_ms()
    if timestamp_ms > now_ms:
        raise InvalidError("as_of is in the future", as_of=_shown(timestamp_ms), now=_shown(now_ms))
    if table.info.partitioned and timestamp_ms < (known_ms := table.partitions_known_since(now_ms)):
        raise PartitionNotFoundError(
            "a partition was dropped or expired after that moment, and its rows went with it; choose a later one",
            table=table.info.path,
            as_of=_shown(timestamp_ms),
            dropped_at=_shown(known_ms),
        )
    table.committer.pass_moment(timestamp_ms)
    offsets = {}
    for bucket, tablet in table.committer.tablets.items():
        name = table.find_name(bucket)
        if name is not None and (ids is None or bucket in ids):
            offsets[name] = _offset(name, tablet, timestamp_ms)
    return PastCut(offsets, table.births())


def _offset(name: TableBucket, tablet: Tablet, timestamp_ms: int) -> int:
    view = tablet.view
    found = view.visible
    for span in view.spans:
        if span.end <= view.base or not span.runs:
            continue
        first = span.runs[0].rows.directory.first_offset_at(timestamp_ms + 1)
        if first is not None:
            found = min(first, view.visible)
            break
    if found > view.base or view.base == tablet.bucket.first_offset(view.base):
        return max(found, view.base)
    # Of the changes before the base it is known only when the last of them was made.
    before_ms = tablet.state.before_base_ms
    if found < view.base or before_ms is None or timestamp_ms < before_ms:
        raise OffsetOutOfRangeError(
            "as_of is before the oldest moment that can still be read; choose a later one, or raise log.retention",
            bucket=name,
            as_of=_shown(timestamp_ms),
            base=view.base,
            oldest=None if before_ms is None else _shown(before_ms),
        )
    return view.base


def _shown(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms after 1970"
