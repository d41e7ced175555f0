"""The cut that a scan under a lease reads at: what the lease holds of the table, and all that is asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.client.cut.cut_pin import LeasePin
from penstock.client.link.link import Link
from penstock.client.scan.request import ScanRequest
from penstock.errors import InvalidError, OffsetOutOfRangeError
from penstock.model.node.lease import Snapshot
from penstock.model.place.bucket import TableBucket
from penstock.model.table.table import TableInfo


def leased_info(link: Link, info: TableInfo, lease_id: str) -> TableInfo:
    """Return a table with the columns that it had when a lease on it was acquired.

    Raises:
        LeaseNotFoundError: the lease is unknown or has expired.
    """
    lease = link.retry.run(lambda: link.node.leases.get(lease_id))
    schema_id = (lease.schemas or {}).get(info.table_id, info.schema_id)
    if schema_id == info.schema_id:
        return info
    return link.retry.run(lambda: link.node.catalog.table_as_of(info.table_id, schema_id))


def pin_leased(link: Link, info: TableInfo, lease_id: str, request: ScanRequest) -> LeasePin:
    """Return the cut that a lease holds of a table, as far as the scan reads it.

    Raises:
        LeaseNotFoundError: the lease is unknown or has expired.
        InvalidError: it does not hold a bucket that is asked for, or none of the table, or two of one name.
        OffsetOutOfRangeError: `as_of` is not what it holds.
    """
    if request.timestamp_ms is not None:
        raise InvalidError("a lease holds one cut; leave as_of out, or read the table itself", lease_id=lease_id)
    lease = link.retry.run(lambda: link.node.leases.get(lease_id))
    held: dict[TableBucket, int] = {}
    for leased in lease.leased:
        if leased.table_id == info.table_id and _is_wanted(leased.snapshot, request, lease_id, held):
            held[leased.snapshot.bucket] = leased.snapshot.offset
    if not held:
        raise InvalidError("the lease holds nothing of this table", lease_id=lease_id, table=info.path)
    if request.as_of is not None:
        _require_held(held, request.as_of, lease_id)
    if request.buckets is None:
        require_whole(held, info, lease_id)
    else:
        _require_held(held, request.buckets, lease_id)
    return LeasePin(link, info.table_id, lease_id, held)


def _is_wanted(snapshot: Snapshot, request: ScanRequest, lease_id: str, held: Mapping[TableBucket, int]) -> bool:
    """Tell whether a scan reads a leased bucket; of two partitions of one name `as_of` tells which."""
    bucket, offset = snapshot.bucket, snapshot.offset
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
            offsets=[held[bucket], offset],
        )
    return True


def _require_held(held: Collection[TableBucket], buckets: Iterable[TableBucket], lease_id: str) -> None:
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
