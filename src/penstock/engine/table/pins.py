"""Pins in the buckets of an open table, by holder: set, moved and taken away wherever the bucket is open now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.engine.table.open_table import OpenTable
from penstock.errors import NotLeaderError, OffsetOutOfRangeError
from penstock.model.place.bucket import BucketId
from penstock.tablet.view.pins import PinHolder


def pin(table: OpenTable, holder: PinHolder, offsets: Mapping[BucketId, int]) -> None:
    """Hold the base of each bucket at or below its offset; all or none.

    Raises:
        NotLeaderError: a bucket is not open here.
        OffsetOutOfRangeError: a base is beyond the offset already; names the bucket.
    """
    done: list[BucketId] = []
    try:
        for bucket, offset in offsets.items():
            tablet = table.tablet(bucket)
            if tablet is None:
                raise not_led(bucket)
            tablet.pins.pin(holder, offset)
            done.append(bucket)
    except (NotLeaderError, OffsetOutOfRangeError) as error:
        unpin(table, holder, done)
        if isinstance(error, NotLeaderError):
            raise
        raise OffsetOutOfRangeError(error.message, bucket=table.name(bucket), **error.facts) from error


def unpin(table: OpenTable, holder: PinHolder, buckets: Iterable[BucketId]) -> None:
    """Let go; idempotent."""
    for bucket in buckets:
        tablet = table.tablet(bucket)
        if tablet is not None:
            tablet.pins.unpin(holder)


def not_led(bucket: object) -> NotLeaderError:
    """Return the error for a bucket that is not open here."""
    return NotLeaderError("this node does not lead the bucket now; try again", bucket=bucket)
