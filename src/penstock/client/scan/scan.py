"""A scan as the caller holds it: one cut of a table, read as often as the caller likes.

    state   event                                   next state  what the caller sees
    ------  --------------------------------------  ----------  -----------------------------------------------------
    open    `next(scan)`                            open        the next batch of one pass that all `next(scan)` share
    open    `for`, `to_arrow()`, any other reading  open        the rest of that pass, if it was begun and not read to
            of all rows                                         its end; otherwise a pass of its own over all rows
    open    `close()`, or the scan is forgotten     closed      ClosedError from every pass that has not ended
    closed  any reading                             closed      ClosedError; only a pass of `next(scan)` that has ended
                                                                goes on raising StopIteration

What a pass gives, and when it ends or fails, is in `scan_pass`. `resume_token` and `bucket` are of the pass begun last.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType

import pyarrow as pa

from penstock.client.cut.cut import Cut
from penstock.client.link.link import Link
from penstock.client.link.origin_check import check_database
from penstock.client.scan.arrow_rows import ArrowRows
from penstock.client.scan.plan import PLANS, ScanPlan
from penstock.client.scan.request import ScanRequest, ScanSource
from penstock.client.scan.scan_pass import PassState, ScanPass, ScanProgress
from penstock.client.scan.token import BucketPosition, ScanToken
from penstock.errors import ClosedError, InvalidError, UnsupportedError
from penstock.model.node.calls import PAGE_TOKEN_MAGIC
from penstock.model.place.bucket import TableBucket
from penstock.model.table.table import TableInfo
from penstock.model.words.html_table import html_table


class Scan(ArrowRows, Iterable[pa.RecordBatch]):
    """Rows of a table at one cut, as record batches, bucket by bucket. Thread-safe; `close()` from any thread.

    The cut is known before the first row, and stays. Each `for`, `to_arrow()` and other reading of all rows starts
    at the scan's beginning, also if one before ended early; a scan that was resumed begins after its token.
    `next(scan)` takes batches off one by one: a reading of all rows after it gives the rest, until that was read.
    """

    def __init__(self, plan: ScanPlan) -> None:
        """Read what a plan says."""
        self._plan = plan
        self._info = plan.info
        self._request = plan.request
        self._database = plan.link.database
        self._lock = threading.Lock()
        self._closed = False
        # A pass that its reader forgot ends by itself; its progress is still told.
        self._passes: weakref.WeakSet[ScanPass] = weakref.WeakSet()
        self._progress = ScanProgress.start(plan)
        self._single: ScanPass | None = None
        # A scan that is forgotten lets go of its cut as one that is closed does.
        weakref.finalize(self, plan.release).atexit = False

    @classmethod
    def begin(cls, link: Link, info: TableInfo, request: ScanRequest) -> Scan:
        """Take the cut and begin.

        Raises:
            InvalidError: `as_of` leaves a bucket out, or the lease does not hold one.
            OffsetOutOfRangeError: `as_of` is older than what is kept, or not yet written.
            TableNotFoundError: the table was dropped.
            LeaseNotFoundError: the lease is unknown or has expired.
        """
        return cls(PLANS[request.source](link, info, request))

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
        # Before the table is looked for: in another database its id belongs to another table.
        cut = {position.table_bucket(""): position.log_offset for position in stored.buckets}
        check_database(link, "resume token", database=stored.database, table_id=stored.table_id, offsets=cut)
        info = link.retry.run(lambda: link.node.catalog.table_by_id(stored.table_id))
        if stored.schema_id > info.schema_id:
            raise InvalidError("the resume token is of another node's table", table=info.path, table_id=info.table_id)
        info = _as_begun(link, info, stored.schema_id)
        request = ScanRequest(
            ScanSource.parse(stored.source),
            columns=tuple(info.schema.column(name).name for name in stored.columns),
            filter=stored.filter,
            limit=stored.limit,
            lease_id=stored.lease_id,
            offsets=stored.offsets,
        )
        return cls(PLANS[request.source](link, info, request, stored.buckets))

    @classmethod
    def _resume_page(cls, link: Link, token: bytes) -> Scan:
        call = link.retry.run(lambda: link.node.scan.read_token(token))
        if call.as_of is None or call.end is not None:
            raise InvalidError("the resume token is of a part of a bucket; open a scanner with it", bucket=call.bucket)
        info = link.retry.run(lambda: link.node.catalog.table_by_id(call.table_id))
        request = ScanRequest(
            ScanSource.LIVE_KV, columns=call.columns, filter=call.filter, limit=call.limit, offsets=call.offsets
        )
        position = BucketPosition(call.bucket.partition, call.bucket.bucket, call.as_of, call.start)
        return cls(PLANS[request.source](link, info, request, (position,)))

    @property
    def info(self) -> TableInfo:
        """Return the table as it was when the scan began."""
        return self._info

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the batches."""
        return self._plan.schema

    @property
    def log_offsets(self) -> Cut:
        """Return the cut: the rows are those of the table at these offsets, changes go on from them."""
        offsets = {position.table_bucket(self._info.path): position.log_offset for position in self._plan.positions}
        return Cut(offsets, database=self._database, table_id=self._info.table_id, births=self._plan.pin.births)

    @property
    def bucket(self) -> TableBucket:
        """Return the bucket that the latest batch came from."""
        self._refuse_ordered("rows of several buckets follow each other")
        progress = self._progress
        return progress.positions[progress.index].table_bucket(self._info.path)

    @property
    def resume_token(self) -> bytes:
        """Return bytes that name what the latest reading has received so far; `conn.resume_scan` goes on after it."""
        self._refuse_ordered("it has no token; scan again with as_of=scan.log_offsets")
        progress = self._progress
        return ScanToken(
            table_id=self._info.table_id,
            schema_id=self._info.schema_id,
            source=self._request.source.value,
            columns=self._request.columns or tuple(self._info.schema.names),
            filter=self._request.filter,
            limit=progress.limit,
            buckets=tuple(progress.positions),
            lease_id=self._request.lease_id,
            database=self._database,
            offsets=self._request.offsets,
        ).encode()

    def count(self) -> int:
        """Return how many rows there are at the scan's cut; none of them travels. A limit does not count.

        Raises:
            UnsupportedError: the scan reads the changes of a keyed table.
            PenstockError: as the node answered.
        """
        if self._request.source is ScanSource.LOG and self._info.keyed:
            raise UnsupportedError("changes are not counted; read them", table=self._info.path)
        return self._plan.passes().count()

    def _refuse_ordered(self, why: str) -> None:
        if self._request.order_by is not None:
            raise UnsupportedError(f"an ordered scan is one answer: {why}", table=self._info.path)

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
            return self._begin_pass() if single is None or single.state is PassState.ENDED else single

    def _begin_pass(self) -> ScanPass:
        if self._closed:
            raise ClosedError("the scan is closed; start another, or resume by token", table=self._info.path)
        begun = ScanPass(self._plan)
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
        return pa.Table.from_batches(batches, schema=self._plan.schema)

    def _all_rows(self) -> Iterable[pa.RecordBatch]:
        return self

    def close(self) -> None:
        """End the scan and let go of its cut; idempotent."""
        with self._lock:
            self._closed = True
            passes = list(self._passes)
        for begun in passes:
            begun.close()
        self._plan.release()

    def __enter__(self) -> Scan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        positions = self._progress.positions
        unread = sum(position.next_offset is not None for position in positions)
        state = "closed" if self._closed else f"{unread} of {len(positions)} buckets to read"
        return f"<Scan of {self._info.path}, source {self._request.source}, {state}>"

    def _repr_html_(self) -> str:
        # The cut and the columns: to show rows would be to read them.
        columns = [(field.name, str(field.type)) for field in self._plan.schema]
        cut = [(bucket.partition, bucket.bucket, at) for bucket, at in self.log_offsets.items()]
        return html_table(repr(self), ("column", "type"), columns) + html_table(
            "the cut", ("partition", "bucket", "offset"), cut
        )


def _as_begun(link: Link, info: TableInfo, schema_id: int) -> TableInfo:
    """Return the table as it was when a scan began, whose columns it keeps."""
    if schema_id == info.schema_id:
        return info
    return link.retry.run(lambda: link.node.catalog.table_as_of(info.table_id, schema_id))


class _Batches(Iterator[pa.RecordBatch]):
    """The batches of one pass. It refers to the scan, which would let go of its cut if it were forgotten."""

    def __init__(self, scan: Scan, reading: ScanPass) -> None:
        self._scan = scan
        self._reading = reading

    def __next__(self) -> pa.RecordBatch:
        return self._reading.next()
