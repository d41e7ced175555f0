"""A running scan: one cut of the table, each row once, and where it stands at any time."""

from __future__ import annotations

import importlib
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from penstock.client.bucket_scan import BucketScan, Portion, close_session
from penstock.client.buckets import require_every
from penstock.client.cut_pin import CutPin
from penstock.client.first_page import only_bucket, open_first
from penstock.client.link import Link
from penstock.client.log_scan import LogScan
from penstock.client.page_ahead import PageAhead
from penstock.client.scan_request import ScanRequest, ScanSource
from penstock.client.scan_token import BucketPosition, ScanToken
from penstock.client.snapshot_cut import LeasePin, leased_buckets, pin_newest
from penstock.errors import ClosedError, InvalidError, PenstockError
from penstock.model.bucket import TableBucket
from penstock.model.calls import Cut, OpenScan, Page
from penstock.model.html_table import html_table
from penstock.model.table import TableInfo

OPENED_AT_ONCE_MAX: Final = 256

Step = tuple[int, Portion]
"""Which position was read on, and what was read."""


class Scan(Iterator[pa.RecordBatch]):
    """Iterates over record batches, bucket by bucket. For one consumer; `close()` from any thread.

    The cut is known before the first row. What was read is gone: `to_arrow()` after some batches
    gives the rest.
    """

    def __init__(
        self,
        link: Link,
        info: TableInfo,
        request: ScanRequest,
        pin: CutPin | LeasePin,
        positions: list[BucketPosition],
        *,
        first: Page | None = None,
    ) -> None:
        """Read from these positions on; `first` is the first page of the only one, read already."""
        self._link = link
        self._info = info
        self._request = request
        self._pin = pin
        self._positions = positions
        self._left = request.limit
        self._closed = threading.Event()
        self._index = 0
        self._schema = request.schema(info)
        # The generator must not hold the scan, or its thread would keep a forgotten scan alive.
        hurry = threading.Event()
        self._hurry = hurry
        steps = _steps(link, info, request, pin, tuple(positions), first=first, hurried=hurry.is_set)
        # With a limit a page ahead may be one too many; beside an engine in this process a thread only costs.
        self._ahead = link.distant and request.limit is None and (first is None or first.has_more)
        # Begun, so that closing the generator ends the session that its first page belongs to.
        self._begun = next(steps) if first is not None else None
        self._steps: Generator[Step, None, None] | PageAhead[Step] = steps
        self._reading = threading.Lock()
        # A generator that was never asked has nothing to clean up when it is forgotten; the cut is there already.
        weakref.finalize(self, pin.release).atexit = False

    @classmethod
    def begin(cls, link: Link, info: TableInfo, request: ScanRequest) -> Scan:
        """Take the cut and begin.

        Raises:
            InvalidError: `as_of` leaves a bucket out.
            OffsetOutOfRangeError: `as_of` is older than what is kept, or not yet written.
            TableNotFoundError: the table was dropped.
        """
        if request.lease_id is not None:
            return cls._begin_leased(link, info, request, request.lease_id)
        bucket = only_bucket(info, request) if link.distant else None
        first = None if bucket is None else open_first(link, info, request, bucket)
        if bucket is not None and first is not None:
            position = BucketPosition(bucket.partition, bucket.bucket, first.log_offset, 0)
            pin = CutPin(link, info.table_id, Cut(first.cut_id or "", {bucket: first.log_offset}))
            return cls(link, info, request, pin, [position], first=first)
        if request.as_of is not None:
            require_every(info, request.as_of, request.buckets or link.node.buckets(info.table_id))
        chosen = request.buckets
        as_of = request.as_of
        if as_of is not None and chosen is not None:
            as_of = {bucket: as_of[bucket] for bucket in chosen}
        if request.source is ScanSource.SNAPSHOT and as_of is None:
            pin = pin_newest(link, info, chosen)
        else:
            pin = CutPin.take(link, info.table_id, as_of=as_of, buckets=chosen)
        starts: Mapping[TableBucket, int] = {}
        if request.source is ScanSource.LOG:
            # After the cut, so that none of its buckets was born too late to be among them.
            starts = {bucket: offsets.base for bucket, offsets in link.node.offsets(info.table_id).items()}
        positions = [
            BucketPosition(bucket.partition, bucket.bucket, pin.offsets[bucket], starts.get(bucket, 0))
            for bucket in (chosen or sorted(pin.offsets, key=bucket_order))
        ]
        return cls(link, info, request, pin, positions)

    @classmethod
    def _begin_leased(cls, link: Link, info: TableInfo, request: ScanRequest, lease_id: str) -> Scan:
        held = leased_buckets(link, info, lease_id, request)
        pin = LeasePin({bucket: leased.snapshot.offset for bucket, leased in held.items()})
        starts: Mapping[TableBucket, int] = {}
        if request.source is ScanSource.LOG:
            # What is kept of a keyed table's log may begin before what the lease needs of it.
            kept = link.retry.run(lambda: link.node.offsets(info.table_id, lease_id=lease_id))
            starts = {bucket: offsets.base for bucket, offsets in kept.items()}
        positions = [
            BucketPosition(bucket.partition, bucket.bucket, pin.offsets[bucket], starts.get(bucket, 0))
            for bucket in (request.buckets or sorted(held, key=bucket_order))
        ]
        return cls(link, info, request, pin, positions)

    @classmethod
    def resume(cls, link: Link, token: bytes) -> Scan:
        """Go on where the scan of that token stood, at the same cut.

        Raises:
            InvalidError: the bytes are no token of a scan of this node's table.
            OffsetOutOfRangeError: the cut can no longer be read.
            TableNotFoundError: the table was dropped.
        """
        stored = ScanToken.decode(token)
        info = link.retry.run(lambda: link.node.table_by_id(stored.table_id))
        if stored.schema_id > info.schema_id:
            raise InvalidError("the resume token is of another node's table", table=info.path, table_id=info.table_id)
        columns = tuple(info.schema.column(name).name for name in stored.columns)
        request = ScanRequest(
            ScanSource.parse(stored.source),
            columns=columns,
            filter=stored.filter,
            limit=stored.limit,
            lease_id=stored.lease_id,
        )
        open_ones = {p.table_bucket(info.path): p.log_offset for p in stored.buckets if p.next_offset is not None}
        if stored.lease_id is not None:
            return cls(link, info, request, LeasePin(open_ones), list(stored.buckets))
        pin = CutPin.take(link, info.table_id, as_of=open_ones, buckets=tuple(open_ones))
        return cls(link, info, request, pin, list(stored.buckets))

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the batches."""
        return self._schema

    @property
    def log_offsets(self) -> dict[TableBucket, int]:
        """Return the cut: the rows are those of the table at these offsets, changes go on from them."""
        return {position.table_bucket(self._info.path): position.log_offset for position in self._positions}

    @property
    def bucket(self) -> TableBucket:
        """Return the bucket that the latest batch came from."""
        return self._positions[self._index].table_bucket(self._info.path)

    @property
    def resume_token(self) -> bytes:
        """Return bytes that name what was received so far; `conn.resume_scan` goes on after it."""
        return ScanToken(
            table_id=self._info.table_id,
            schema_id=self._info.schema_id,
            source=self._request.source.value,
            columns=self._request.columns or tuple(self._info.schema.names),
            filter=self._request.filter,
            limit=self._left,
            buckets=tuple(self._positions),
            lease_id=self._request.lease_id,
        ).encode()

    def __next__(self) -> pa.RecordBatch:
        if self._ahead and not isinstance(self._steps, PageAhead):
            with self._reading:
                self._read_ahead()
        return self._next()

    def _read_ahead(self) -> None:
        # Only now: whoever takes batches one by one works on them in between, others would gain nothing.
        if not isinstance(self._steps, PageAhead):
            self._steps = PageAhead(self._steps, name=f"penstock-scan-{self._info.path}")

    def _next(self) -> pa.RecordBatch:
        while True:
            batch = self._next_batch()
            if batch.num_rows:
                if batch.schema.equals(self._schema):
                    return batch
                return pa.RecordBatch.from_arrays(batch.select(self._schema.names).columns, schema=self._schema)

    def _next_batch(self) -> pa.RecordBatch:
        with self._reading:
            if not self._closed.is_set():
                try:
                    step, self._begun = self._begun or next(self._steps), None
                except StopIteration:
                    if not self._closed.is_set():
                        raise
                except BaseException:
                    # A generator that failed says it is at its end when asked again; a scan must not.
                    self._closed.set()
                    raise
                else:
                    if not self._closed.is_set():
                        return self._received(step)
            # Closed meanwhile by another thread, which could not close a generator at work.
            self._steps.close()
            raise ClosedError("the scan is closed; start another, or resume by token", table=self._info.path)

    def _received(self, step: Step) -> pa.RecordBatch:
        # While reading is ours: threads that share a scan must not mix up what it has received.
        index, (batch, next_offset) = step
        self._index = index
        self._positions[index] = replace(self._positions[index], next_offset=next_offset)
        self._left = None if self._left is None else self._left - batch.num_rows
        return batch

    def to_arrow(self) -> pa.Table:
        """Return the rest of the rows as a table."""
        if self._ahead and not isinstance(self._steps, PageAhead):
            self._hurry.set()
        with self, suppress(StopIteration):
            batches: list[pa.RecordBatch] = []
            while True:
                batches.append(self._next())
        return pa.Table.from_batches(batches, schema=self._schema)

    def to_pandas(self) -> Any:
        """Return the rest of the rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the rest of the rows as a polars DataFrame."""
        return importlib.import_module("polars").from_arrow(self.to_arrow())

    def to_duckdb(self, connection: Any = None) -> Any:
        """Return the rest of the rows as a DuckDB relation, in a DuckDB connection if one is given."""
        return (connection or importlib.import_module("duckdb")).from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rest of the rows to any library that takes Arrow streams."""
        return pa.RecordBatchReader.from_batches(self._schema, self).__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """End the scan and let go of its cut; idempotent."""
        self._closed.set()
        if isinstance(self._steps, PageAhead):
            self._steps.close()
        elif self._reading.acquire(blocking=False):
            self._steps.close()
            self._reading.release()
        self._pin.release()

    def __enter__(self) -> Scan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        left = sum(position.next_offset is not None for position in self._positions)
        state = "closed" if self._closed.is_set() else f"{left} of {len(self._positions)} buckets to read"
        return f"<Scan of {self._info.path}, source {self._request.source}, {state}>"

    def _repr_html_(self) -> str:
        # The cut and the columns: to show rows would be to read them, and what was read is gone.
        columns = [(field.name, str(field.type)) for field in self._schema]
        cut = [(bucket.partition, bucket.bucket, at) for bucket, at in self.log_offsets.items()]
        return html_table(repr(self), ("column", "type"), columns) + html_table(
            "the cut", ("partition", "bucket", "offset"), cut
        )


def bucket_order(bucket: TableBucket) -> tuple[str, int]:
    """Return what buckets are sorted by."""
    return bucket.partition or "", bucket.bucket


def _steps(
    link: Link,
    info: TableInfo,
    request: ScanRequest,
    pin: CutPin | LeasePin,
    positions: tuple[BucketPosition, ...],
    *,
    first: Page | None,
    hurried: Callable[[], bool],
) -> Generator[Step, None, None]:
    left = request.limit
    opened = {} if first is None else {0: first}
    try:
        for index, position in enumerate(positions):
            if position.next_offset is None:
                continue
            if left == 0:
                return
            if not opened and link.distant and left is None:
                unread = {i: p for i, p in enumerate(positions) if i >= index and p.next_offset is not None}
                opened = _open_some(link, info, request, pin, unread)
            asked = replace(request, limit=left)
            page = opened.pop(index, None)
            with closing(_portions(link, info, asked, pin, position, opened=page, hurried=hurried)) as portions:
                for portion in portions:
                    left = None if left is None else left - portion[0].num_rows
                    yield index, portion
    finally:
        for page in opened.values():
            if page.has_more and page.scanner_id is not None:
                close_session(link, page.scanner_id)
        pin.release()


def _open_some(
    link: Link,
    info: TableInfo,
    request: ScanRequest,
    pin: CutPin | LeasePin,
    positions: dict[int, BucketPosition],
) -> dict[int, Page]:
    """Return the first pages of the first bucket, and of those after it that are had in the same call."""
    if request.source is ScanSource.LOG or len(positions) < 2:
        return {}
    chosen = list(positions)[:OPENED_AT_ONCE_MAX]
    calls = [replace(_open_call(info, request, positions[index]), cut_id=pin.cut_id) for index in chosen]
    try:
        return dict(zip(chosen, link.node.open_scanners(calls), strict=False))
    except PenstockError:
        # Whoever opens one by one tries again, and is the one to be told.
        return {}


def _portions(
    link: Link,
    info: TableInfo,
    request: ScanRequest,
    pin: CutPin | LeasePin,
    position: BucketPosition,
    *,
    opened: Page | None,
    hurried: Callable[[], bool],
) -> Generator[Portion, None, None]:
    assert position.next_offset is not None, "a finished bucket is not read again"
    bucket = position.table_bucket(info.path)
    if request.source is ScanSource.LOG:
        return LogScan(link, info, request, bucket, start=position.next_offset, end=position.log_offset).portions()
    return BucketScan(link, _open_call(info, request, position), pin, opened, hurried=hurried).portions()


def _open_call(info: TableInfo, request: ScanRequest, position: BucketPosition) -> OpenScan:
    assert position.next_offset is not None, "a finished bucket is not read again"
    return OpenScan(
        table_id=info.table_id,
        schema_id=info.schema_id,
        bucket=position.table_bucket(info.path),
        columns=request.columns,
        filter=request.filter,
        limit=request.limit,
        as_of=position.log_offset,
        start=position.next_offset,
        lease_id=request.lease_id,
    )
