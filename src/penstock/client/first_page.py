"""The first page of a scan together with its snapshot, in one call.

A bucket's session takes its own snapshot when none is named, so one bucket needs no cut to begin
with: a small table is read whole in a single round trip. What is more than a page goes on under a
cut, which is pinned while the session still holds the snapshot.
"""

from __future__ import annotations

from contextlib import suppress

from penstock.client.cut_pin import CutPin
from penstock.client.link import Link
from penstock.client.retry import worth_retrying
from penstock.client.scan_request import ScanRequest, ScanSource
from penstock.errors import PenstockError, TooManyScannersError
from penstock.model.bucket import TableBucket
from penstock.model.calls import Cut, OpenScan, Page
from penstock.model.table import TableInfo


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
    )
    try:
        return link.retry.run(
            lambda: link.node.open_scanner(call),
            when=lambda error: worth_retrying(error) and not isinstance(error, TooManyScannersError),
        )
    except TooManyScannersError:
        # A cut takes no session: it fixes the snapshot now, and whoever reads it waits for room then.
        return None


def pin_rest(link: Link, info: TableInfo, bucket: TableBucket, page: Page) -> CutPin:
    """Keep the snapshot of a first page readable for the rest of the scan, and end the page's session.

    Raises:
        PenstockError: as the node answered, once that is not worth retrying.
    """
    offsets = {bucket: page.log_offset}
    if not page.has_more:
        return CutPin(link, info.table_id, Cut("", offsets))
    pin = CutPin.take(link, info.table_id, as_of=offsets, buckets=(bucket,))
    assert page.scanner_id is not None, "a page that has more belongs to a session"
    # A session that cannot be closed now expires by itself.
    with suppress(PenstockError):
        link.node.close_scanner(page.scanner_id)
    return pin
