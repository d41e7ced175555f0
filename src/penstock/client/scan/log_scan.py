"""The changes of a scan's buckets, read from the log up to the end that the scan was opened with."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from penstock.client.link.link import Link
from penstock.client.pages.bucket_scan import Portion
from penstock.client.pages.change_pull import ChangePull
from penstock.client.scan.request import ScanRequest
from penstock.client.scan.token import BucketPosition
from penstock.errors import InternalError
from penstock.model.filter.filter import Filter
from penstock.model.place.bucket import TableBucket
from penstock.model.table.table import TableInfo

FILTERED: Final = 4
"""How many times the rows that a limit wants are read at first if there is a filter."""


class LogReader:
    """Reads changes for one pass, bucket by bucket. The node keeps no session for that, so there is nothing to end."""

    def __init__(self, link: Link, info: TableInfo, request: ScanRequest, positions: Sequence[BucketPosition]) -> None:
        self._link = link
        self._info = info
        self._request = request
        self._positions = positions

    def pages(self, index: int, limit: int | None) -> Generator[Sequence[Portion], None, None]:
        """Yield the changes of each pull of a bucket, at most `limit` changes."""
        position, request = self._positions[index], replace(self._request, limit=limit)
        assert position.next_offset is not None, "a finished bucket is not read again"
        bucket, start, end = position.table_bucket(self._info.path), position.next_offset, position.log_offset
        return LogScan(self._link, self._info, request, bucket, start=start, end=end).pages()

    def close(self) -> None:
        """Do nothing."""


class LogScan:
    """Reads the changes [start, end) of one bucket. Filter and limit are applied by the client, not by the node."""

    def __init__(
        self,
        link: Link,
        info: TableInfo,
        request: ScanRequest,
        bucket: TableBucket,
        *,
        start: int,
        end: int,
    ) -> None:
        self._filter = Filter.from_bytes(request.filter or b"", info.schema)
        self._schema = request.schema(info)
        self._limit = request.limit
        self._bucket = bucket
        self._pull = ChangePull(
            link, info, {bucket: (start, end)}, columns=self._columns(info, request), lease_id=request.lease_id
        )
        self._pull.begun(threading.Event())

    def pages(self) -> Generator[Sequence[Portion], None, None]:
        """Yield the rows of each pull, in portions.

        Raises:
            OffsetOutOfRangeError: the changes are no longer kept.
            PenstockError: as the node answered, once that is not worth retrying.
        """
        try:
            yield from self._pages(self._limit)
        finally:
            self._pull.release()

    def _pages(self, left: int | None) -> Generator[Sequence[Portion], None, None]:
        changes = left if self._filter.is_all else None if left is None else left * FILTERED
        while self._pull.unfinished:
            # With a limit only as many changes travel as it needs; with a filter that is a guess, doubled each time.
            pages = self._pull.pull(wait_ms=0, changes=changes)
            if not pages:
                raise InternalError("the node gave no changes below the end that it named", bucket=self._bucket)
            for page in pages:
                self._pull.move(page)
                batch = self._passing(self._pull.shown(page)).slice(0, left)
                left = None if left is None else left - batch.num_rows
                yield [(batch, page.next_offset if self._pull.unfinished else None)]
                if left == 0:
                    return
            if changes is not None:
                changes = left if self._filter.is_all else changes * 2

    def _passing(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kept = batch if self._filter.is_all else batch.filter(pa.array(self._filter.mask(batch)))
        return pa.RecordBatch.from_arrays([kept.column(name) for name in self._schema.names], schema=self._schema)

    def _columns(self, info: TableInfo, request: ScanRequest) -> tuple[str, ...] | None:
        if request.columns is None:
            return None
        wanted = {*request.columns, *self._filter.columns}
        return tuple(name for name in info.schema.names if name in wanted)
