"""The first page of a scan together with its snapshot, in one call.

A bucket's session takes its own snapshot when none is named, so one bucket needs no cut to begin
with: a small table is read whole in a single round trip. If there is more than a page, the node pins
the snapshot as a cut in the same call, so that the scan outlives its session.
"""

from __future__ import annotations

from penstock.client.link.link import Link
from penstock.client.link.retry import worth_retrying
from penstock.client.pages.bucket_scan import session_name
from penstock.client.scan.request import ScanRequest, ScanSource
from penstock.errors import TooManyScannersError
from penstock.model.node.calls import OpenScan, Page
from penstock.model.place.bucket import TableBucket
from penstock.model.table.table import TableInfo


def only_bucket(info: TableInfo, request: ScanRequest) -> TableBucket | None:
    """Return the one bucket that a scan of the present reads, if it is one of a fixed number."""
    present = request.source is ScanSource.LIVE_KV and request.as_of is None and request.lease_id is None
    if not present or info.partitioned or request.limit == 0:
        return None
    if request.buckets is not None:
        return request.buckets[0] if len(request.buckets) == 1 else None
    return TableBucket(info.path, None, 0) if info.buckets == 1 else None


def open_first(link: Link, info: TableInfo, request: ScanRequest, bucket: TableBucket) -> Page | None:
    """Open a scan of the present and return its first page; None if there is no room for a session now.

    Raises:
        PenstockError: as the node answered, once that is not worth retrying.
    """
    call = OpenScan(
        table_id=info.table_id,
        schema_id=info.schema_id,
        bucket=bucket,
        columns=request.columns,
        filter=request.filter,
        limit=request.limit,
        pin=True,
        scanner_id=session_name(),
    )
    try:
        return link.retry.run(
            lambda: link.node.open_scanner(call),
            when=lambda error: worth_retrying(error) and not isinstance(error, TooManyScannersError),
        )
    except TooManyScannersError:
        # A cut takes no session: it fixes the snapshot now, and whoever reads it waits for room then.
        return None
