"""Buckets as users name them: a `TableBucket`, or on an undivided table just its number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.errors import InvalidError
from penstock.model.place.bucket import TableBucket
from penstock.model.place.change import OFFSET_MAX
from penstock.model.table.table import TableInfo

BucketName = TableBucket | int
OffsetsByBucket = Mapping[TableBucket, int] | Mapping[int, int] | Mapping[BucketName, int]


def resolve_bucket(info: TableInfo, bucket: BucketName) -> TableBucket:
    """Return the bucket that is meant.

    Raises:
        InvalidError: it is no bucket of this table.
    """
    if isinstance(bucket, TableBucket):
        found = bucket
    elif type(bucket) is int:
        if info.partitioned:
            raise InvalidError(
                "a bucket of a partitioned table is named with its partition; use penstock.TableBucket",
                table=info.path,
                bucket=bucket,
            )
        found = TableBucket(info.path, None, bucket)
    else:
        raise InvalidError("a bucket is a penstock.TableBucket or a number", bucket=repr(bucket))
    if found.table != info.path or (found.partition is None) == info.partitioned:
        raise InvalidError("the bucket is of another table", table=info.path, bucket=found)
    if type(found.bucket) is not int or not 0 <= found.bucket < info.buckets:
        raise InvalidError("the table has fewer buckets", buckets=info.buckets, bucket=found)
    return found


def resolve_buckets(info: TableInfo, buckets: Iterable[BucketName]) -> tuple[TableBucket, ...]:
    """Return the buckets that are meant, in the order given.

    Raises:
        InvalidError: one is no bucket of this table or named twice, or there is none.
    """
    if isinstance(buckets, TableBucket | int):
        buckets = [buckets]
    if not isinstance(buckets, Iterable):
        raise InvalidError("buckets= takes a list of penstock.TableBucket or numbers", found=type(buckets).__name__)
    found = tuple(resolve_bucket(info, bucket) for bucket in buckets)
    if not found or len(set(found)) != len(found):
        raise InvalidError("name at least one bucket, and each once", buckets=list(found))
    return found


def resolve_offsets(info: TableInfo, offsets: OffsetsByBucket) -> dict[TableBucket, int]:
    """Return offsets by bucket.

    Raises:
        InvalidError: a bucket is none of this table, or an offset is no offset.
    """
    if not isinstance(offsets, Mapping):
        raise InvalidError("a cut is offsets by bucket, as t.cut() returns them", found=type(offsets).__name__)
    found: dict[TableBucket, int] = {}
    for bucket, offset in offsets.items():
        if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= OFFSET_MAX:
            raise InvalidError("an offset is a whole number, not negative", bucket=bucket, offset=repr(offset))
        found[resolve_bucket(info, bucket)] = offset
    return found


def require_every(info: TableInfo, given: Mapping[TableBucket, int], buckets: Iterable[TableBucket]) -> None:
    """Refuse offsets that leave a bucket out.

    Raises:
        InvalidError: the message names the first bucket without an offset.
    """
    for bucket in buckets:
        if bucket not in given:
            raise InvalidError(
                "as_of names every bucket that is to be read; add it, or choose others by buckets=",
                table=info.path,
                bucket=bucket,
            )
