"""A running scan: one cut of the table, each row once, and where it stands at any time."""

from __future__ import annotations

import importlib
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

import pyarrow as pa

from penstock.client.cut.cut import Cut
from penstock.client.cut.cut_pin import CutPin
from penstock.client.link.buckets import require_every
from penstock.client.link.link import Link
from penstock.client.link.place import check_database
from penstock.client.scan.first_page import only_bucket, open_first
from penstock.client.scan.request import ScanRequest, ScanSource
from penstock.client.scan.scan_pass import ScanPass, ScanProgress, ScanWork
from penstock.client.scan.snapshot_cut import LeasePin, leased_buckets, pin_newest
from penstock.client.scan.token import BucketPosition, ScanToken
from penstock.errors import ClosedError, InvalidError
from penstock.model.node.calls import PAGE_TOKEN_MAGIC, Page
from penstock.model.node.calls import Cut as PinnedCut
from penstock.model.place.bucket import TableBucket
from penstock.model.table.table import TableInfo
from penstock.model.words.html_table import html_table


class Scan(Iterable[pa.RecordBatch]):
    """Rows of a table at one cut, as record batches, bucket by bucket. Thread-safe; `close()` from any thread.

    The cut is known before the first row, and stays. Each `for`, `to_arrow()` and other reading of all rows starts
    at the scan's beginning, also if one before ended early; a scan that was resumed begins after its token.
    `next(scan)` is for who takes batches off one by one: what is read after it is the rest, until that was read.
    """

    def __init__(
        self,
        link: Link,
        info: TableInfo,
        request: ScanRequest,
        pin: CutPin | LeasePin,
        positions: Sequence[BucketPosition],
        *,
        first: Page | None = None,
    ) -> None:
        """Read from these positions on; `first` is the first page of the only one, read already."""
        self._info = info
        self._request = request
        self._database = link.database
        self._births = pin.births if isinstance(pin, CutPin) else None
        self._schema = request.schema(info)
        opened = [] if first is None else [first]
        self._work = ScanWork(link, info, request, pin, tuple(positions), self._schema, opened)
        self._lock = threading.Lock()
        self._closed = False
        # A pass that its reader forgot ends by itself; what it had received is still told.
        self._passes: weakref.WeakSet[ScanPass] = weakref.WeakSet()
        self._progress = ScanProgress(list(positions), request.limit)
        self._single: ScanPass | None = None
        # A scan that is forgotten lets go as one that is closed does.
        weakref.finalize(self, self._work.let_go).atexit = False

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
            pin = CutPin(link, info.table_id, PinnedCut(first.cut_id or "", {bucket: first.log_offset}))
            return cls(link, info, request, pin, [position], first=first)
        if request.as_of is not None and request.buckets is not None:
            require_every(info, request.as_of, request.buckets)
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
            state = link.retry.run(lambda: link.node.log_state(info.table_id))
            starts = {bucket: state.first_kept(bucket, x) for bucket, x in pin.offsets.items()}
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
        """Go on where the scan, or the page, of that token stood, at the same cut.

        Raises:
            InvalidError: the bytes are no token of a scan of this database.
            OffsetOutOfRangeError: the cut can no longer be read.
            TableNotFoundError: the table was dropped.
        """
        if isinstance(token, bytes) and token.startswith(PAGE_TOKEN_MAGIC):
            return cls._resume_page(link, token)
        stored = ScanToken.decode(token)
        # Before the table is looked for: the one of its id here may be any.
        cut = {position.table_bucket(""): position.log_offset for position in stored.buckets}
        check_database(link, "resume token", database=stored.database, table_id=stored.table_id, offsets=cut)
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

    @classmethod
    def _resume_page(cls, link: Link, token: bytes) -> Scan:
        call = link.retry.run(lambda: link.node.read_token(token))
        if call.as_of is None or call.end is not None:
            raise InvalidError("the resume token is of a part of a bucket; open a scanner with it", bucket=call.bucket)
        info = link.retry.run(lambda: link.node.table_by_id(call.table_id))
        request = ScanRequest(ScanSource.LIVE_KV, columns=call.columns, filter=call.filter, limit=call.limit)
        pin = CutPin.take(link, info.table_id, as_of={call.bucket: call.as_of}, buckets=(call.bucket,))
        position = BucketPosition(call.bucket.partition, call.bucket.bucket, call.as_of, call.start)
        return cls(link, info, request, pin, [position])

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the batches."""
        return self._schema

    @property
    def log_offsets(self) -> Cut:
        """Return the cut: the rows are those of the table at these offsets, changes go on from them."""
        path, positions = self._info.path, self._work.positions
        offsets = {position.table_bucket(path): position.log_offset for position in positions}
        return Cut(offsets, database=self._database, table_id=self._info.table_id, births=self._births)

    @property
    def bucket(self) -> TableBucket:
        """Return the bucket that the latest batch came from."""
        progress = self._progress
        return progress.positions[progress.index].table_bucket(self._info.path)

    @property
    def resume_token(self) -> bytes:
        """Return bytes that name what the latest reading has received so far; `conn.resume_scan` goes on after it."""
        progress = self._progress
        return ScanToken(
            table_id=self._info.table_id,
            schema_id=self._info.schema_id,
            source=self._request.source.value,
            columns=self._request.columns or tuple(self._info.schema.names),
            filter=self._request.filter,
            limit=progress.left,
            buckets=tuple(progress.positions),
            lease_id=self._request.lease_id,
            database=self._database,
        ).encode()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return _Batches(self, self._pass_of_all())

    def __next__(self) -> pa.RecordBatch:
        with self._lock:
            if self._single is None:
                self._single = self._begin_pass()
            single = self._single
        return single.next()

    def _pass_of_all(self) -> ScanPass:
        with self._lock:
            single = self._single
            return self._begin_pass() if single is None or single.ended else single

    def _begin_pass(self) -> ScanPass:
        if self._closed:
            raise ClosedError("the scan is closed; start another, or resume by token", table=self._info.path)
        begun = ScanPass(self._work)
        self._passes.add(begun)
        self._progress = begun.progress
        return begun

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table."""
        reading = self._pass_of_all()
        reading.hurry()
        batches: list[pa.RecordBatch] = []
        with suppress(StopIteration):
            while True:
                batches.append(reading.next())
        return pa.Table.from_batches(batches, schema=self._schema)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the rows as a polars DataFrame."""
        return importlib.import_module("polars").from_arrow(self.to_arrow())

    def to_duckdb(self, connection: Any = None) -> Any:
        """Return the rows as a DuckDB relation, in a DuckDB connection if one is given."""
        return (connection or importlib.import_module("duckdb")).from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows to any library that takes Arrow streams."""
        return pa.RecordBatchReader.from_batches(self._schema, iter(self)).__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """End the scan and let go of its cut; idempotent."""
        with self._lock:
            self._closed = True
            passes = list(self._passes)
        for begun in passes:
            begun.close()
        self._work.let_go()

    def __enter__(self) -> Scan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        positions = self._progress.positions
        left = sum(position.next_offset is not None for position in positions)
        state = "closed" if self._closed else f"{left} of {len(positions)} buckets to read"
        return f"<Scan of {self._info.path}, source {self._request.source}, {state}>"

    def _repr_html_(self) -> str:
        # The cut and the columns: to show rows would be to read them.
        columns = [(field.name, str(field.type)) for field in self._schema]
        cut = [(bucket.partition, bucket.bucket, at) for bucket, at in self.log_offsets.items()]
        return html_table(repr(self), ("column", "type"), columns) + html_table(
            "the cut", ("partition", "bucket", "offset"), cut
        )


def bucket_order(bucket: TableBucket) -> tuple[str, int]:
    """Return what buckets are sorted by."""
    return bucket.partition or "", bucket.bucket


class _Batches(Iterator[pa.RecordBatch]):
    """The batches of one pass. It holds the scan, which would let go of its cut if it were forgotten."""

    def __init__(self, scan: Scan, reading: ScanPass) -> None:
        self._scan = scan
        self._reading = reading

    def __next__(self) -> pa.RecordBatch:
        return self._reading.next()
