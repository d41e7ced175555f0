"""The rows of a scan's buckets, read in scan sessions; sessions of several buckets are opened in one call."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Final

from penstock.client.link.link import Link
from penstock.client.pages.bucket_scan import BucketScan, Pin, Portion, close_session, session_name
from penstock.client.scan.request import ScanRequest
from penstock.client.scan.token import BucketPosition
from penstock.errors import PenstockError
from penstock.model.node.calls import OpenScan, Page
from penstock.model.table.table import TableInfo

OPENED_AT_ONCE_MAX: Final = 256


class RowReader:
    """Reads rows for one pass, bucket by bucket. Its state are first pages, opened and not read yet."""

    def __init__(
        self,
        link: Link,
        info: TableInfo,
        request: ScanRequest,
        positions: Sequence[BucketPosition],
        *,
        pin: Pin,
        first: Page | None,
        hurried: bool,
    ) -> None:
        """Read at the cut of `pin`; `first` is the first page of the first bucket, if that was opened before."""
        self._link = link
        self._info = info
        self._request = request
        self._positions = positions
        self._pin = pin
        self._opened: dict[int, Page] = {} if first is None else {0: first}
        self._hurried = hurried
        # A bucket's session has one name in this pass: opened again after a lost reply, it is the same session.
        self._names = [session_name() for _ in positions]

    def pages(self, index: int, limit: int | None) -> Generator[Sequence[Portion], None, None]:
        """Yield the rows of each page of the bucket of that position, at most `limit` rows."""
        # With a limit the buckets after this one may not be needed.
        if not self._opened and self._link.distant and limit is None:
            self._opened = self._open_together(index)
        call, opened = replace(self._call(index), limit=limit), self._opened.pop(index, None)
        return BucketScan(self._link, call, self._pin, opened, hurried=self._hurried).pages()

    def close(self) -> None:
        """End the sessions of pages that were not read."""
        for page in self._opened.values():
            if page.has_more:
                close_session(self._link, page.scanner_id)

    def _open_together(self, index: int) -> dict[int, Page]:
        """Return first pages of the buckets from an index on, as many as the node gives in one call."""
        unread = [i for i in range(index, len(self._positions)) if self._positions[i].next_offset is not None]
        if len(unread) < 2:
            return {}
        calls = [replace(self._call(i), cut_id=self._pin.cut_id) for i in unread[:OPENED_AT_ONCE_MAX]]
        try:
            return dict(zip(unread, self._link.node.scan.open_some(calls), strict=False))
        except PenstockError:
            # Each bucket is opened alone next, with retries: an error that stays is raised there.
            return {}

    def _call(self, index: int) -> OpenScan:
        position, request = self._positions[index], self._request
        assert position.next_offset is not None, "a finished bucket is not read again"
        return OpenScan(
            table_id=self._info.table_id,
            schema_id=self._info.schema_id,
            bucket=position.table_bucket(self._info.path),
            columns=request.columns,
            filter=request.filter,
            as_of=position.log_offset,
            start=position.next_offset,
            lease_id=request.lease_id,
            scanner_id=self._names[index],
            offsets=request.offsets,
        )
