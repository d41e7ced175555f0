"""The cut that a scan of snapshots reads at: what a lease holds, or the newest snapshots."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.client.cut.cut_pin import CutPin
from penstock.client.link.link import Link
from penstock.client.scan.request import ScanRequest
from penstock.errors import InvalidError, OffsetOutOfRangeError
from penstock.model.node.lease import Leased
from penstock.model.place.bucket import TableBucket
from penstock.model.table.table import TableInfo

TRIES = 3


class LeasePin:
    """A cut that a lease keeps readable: nothing to renew, nothing to release."""

    cut_id: str | None = None

    def __init__(self, offsets: Mapping[TableBucket, int]) -> None:
        self.offsets = offsets

    def renew(self) -> None:
        """Do nothing: the lease is renewed by its holder."""

    def release(self) -> None:
        """Do nothing: the lease is given back by its holder."""


def leased_buckets(link: Link, info: TableInfo, lease_id: str, request: ScanRequest) -> dict[TableBucket, Leased]:
    """Return what a lease holds of a table, as far as the scan reads it.

    Raises:
        LeaseNotFoundError: the lease is unknown or has expired.
        InvalidError: it does not hold a bucket that is asked for, or none of the table, or two of one name.
        OffsetOutOfRangeError: `as_of` is not what it holds.
    """
    lease = link.retry.run(lambda: link.node.lease(lease_id))
    held: dict[TableBucket, Leased] = {}
    for leased in lease.leased:
        if leased.table_id == info.table_id and _is_wanted(leased, request, lease_id, held):
            held[leased.snapshot.bucket] = leased
    if not held:
        raise InvalidError("the lease holds nothing of this table", lease_id=lease_id, table=info.path)
    if request.as_of is not None:
        _require_held(held, request.as_of, lease_id)
    if request.buckets is None:
        require_whole(held, info, lease_id)
        return held
    _require_held(held, request.buckets, lease_id)
    return {bucket: held[bucket] for bucket in request.buckets}


def _is_wanted(leased: Leased, request: ScanRequest, lease_id: str, held: Mapping[TableBucket, Leased]) -> bool:
    """Tell whether a scan reads a leased bucket; of two partitions of one name `as_of` tells which."""
    bucket, offset = leased.snapshot.bucket, leased.snapshot.offset
    if request.as_of is not None and bucket in request.as_of:
        asked = request.as_of[bucket]
        if bucket.first_offset(asked) != bucket.first_offset(offset):
            return False
        if asked != offset:
            raise OffsetOutOfRangeError(
                "the lease holds the bucket at another offset; scan it there",
                lease_id=lease_id,
                bucket=bucket,
                offset=asked,
                leased=offset,
            )
    if bucket in held:
        raise InvalidError(
            "the lease holds two partitions of one name, one dropped since; say with as_of= which is meant",
            lease_id=lease_id,
            bucket=bucket,
            offsets=[held[bucket].snapshot.offset, offset],
        )
    return True


def _require_held(held: Mapping[TableBucket, Leased], buckets: Iterable[TableBucket], lease_id: str) -> None:
    for bucket in buckets:
        if bucket not in held:
            raise InvalidError("the lease does not hold that bucket", lease_id=lease_id, bucket=bucket)


def require_whole(held: Collection[TableBucket], info: TableInfo, lease_id: str) -> None:
    """Refuse to pass off some buckets of a partition, or of the table, as all of it."""
    for partition in {bucket.partition for bucket in held}:
        for number in range(info.buckets):
            bucket = TableBucket(info.path, partition, number)
            if bucket not in held:
                raise InvalidError(
                    "the lease holds only some buckets of the table; name them with buckets=[...], or acquire it anew",
                    lease_id=lease_id,
                    missing=bucket,
                )


def pin_newest(link: Link, info: TableInfo, buckets: tuple[TableBucket, ...] | None) -> CutPin:
    """Pin the newest snapshots of a table; where there is none they are taken first.

    Raises:
        TableNotFoundError: the table was dropped.
        UnsupportedError: it is a log table.
        OffsetOutOfRangeError: snapshots went faster than they could be pinned.
    """
    for attempt in range(TRIES):
        found = link.retry.run(lambda: link.node.list_snapshots(info.table_id))
        wanted = buckets or link.retry.run(lambda: link.node.buckets(info.table_id))
        # Oldest first: the newest of each bucket is what stays.
        last = {snapshot.bucket: snapshot for snapshot in found}
        if any(bucket not in last or last[bucket].damaged for bucket in wanted):
            taken = link.retry.run(lambda: link.node.create_snapshot(info.table_id))
            last = {snapshot.bucket: snapshot for snapshot in taken}
        newest = {bucket: snapshot.offset for bucket, snapshot in last.items()}
        try:
            return CutPin.take(link, info.table_id, as_of={b: newest[b] for b in wanted}, buckets=tuple(wanted))
        except OffsetOutOfRangeError:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("the last attempt returns or raises")
