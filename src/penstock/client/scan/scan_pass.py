"""One pass over the rows of a scan: page by page, bucket by bucket, each row once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from penstock.client.cut.cut_pin import CutPin
from penstock.client.link.link import Link
from penstock.client.pages.bucket_scan import BucketScan, Portion, close_session, session_name
from penstock.client.pages.page_ahead import PageAhead
from penstock.client.scan.log_scan import LogScan
from penstock.client.scan.request import ScanRequest, ScanSource
from penstock.client.scan.snapshot_cut import LeasePin
from penstock.client.scan.token import BucketPosition
from penstock.errors import ClosedError, PenstockError
from penstock.model.node.calls import OpenScan, Page
from penstock.model.table.table import TableInfo

OPENED_AT_ONCE_MAX: Final = 256

Step = tuple[int, Portion]
"""Which position was read on, and what was read."""


@dataclass(frozen=True, slots=True)
class ScanWork:
    """What every pass of a scan reads, and through what. `first` holds the first page until a pass takes it.

    A pass may outlive its scan by the page that its thread waits for, so nothing here holds the scan.
    """

    link: Link
    info: TableInfo
    request: ScanRequest
    pin: CutPin | LeasePin
    positions: tuple[BucketPosition, ...]
    schema: pa.Schema
    first: list[Page]

    def let_go(self) -> None:
        """End the session of a first page that nobody took, and let go of the cut; idempotent."""
        for page in _taken(self.first):
            if page.has_more and page.scanner_id is not None:
                close_session(self.link, page.scanner_id)
        self.pin.release()


@dataclass(slots=True)
class ScanProgress:
    """What was received: where each bucket stands, what is left of the limit, which bucket came last."""

    positions: list[BucketPosition]
    left: int | None
    index: int = 0


class ScanPass:
    """Reads the rows of a scan once. Threads that share a pass get each batch once; `close()` from any thread."""

    def __init__(self, work: ScanWork) -> None:
        self._work = work
        self.progress = ScanProgress(list(work.positions), work.request.limit)
        self.ended = False
        self._closed = threading.Event()
        self._hurry = threading.Event()
        self._reading = threading.Lock()
        self._steps: Generator[Sequence[Step], None, None] | PageAhead[Sequence[Step]] | None = None
        self._waiting: list[Step] = []
        self._ahead = False

    def hurry(self) -> None:
        """Have pages asked for early from now on: their rows are taken as they come."""
        with self._reading:
            self._begun()
            # With a limit pages are not asked for early, and a thread that reads ahead goes on doing so.
            if self._ahead and not isinstance(self._steps, PageAhead):
                self._hurry.set()

    def next(self) -> pa.RecordBatch:
        """Return the next batch that has rows, in the scan's schema.

        Raises:
            StopIteration: there is none.
            ClosedError: the pass was closed, or has failed.
            PenstockError: as the node answered, once that is not worth retrying.
        """
        schema = self._work.schema
        while True:
            batch = self._next_batch()
            if batch.num_rows:
                if batch.schema.equals(schema):
                    return batch
                return pa.RecordBatch.from_arrays(batch.select(schema.names).columns, schema=schema)

    def _next_batch(self) -> pa.RecordBatch:
        with self._reading:
            if self.ended:
                raise StopIteration
            if not self._closed.is_set():
                try:
                    step = self._next_step()
                except StopIteration:
                    if not self._closed.is_set():
                        self.ended = True
                        raise
                except BaseException:
                    # A generator that failed says it is at its end when asked again; a scan must not.
                    self._closed.set()
                    raise
                else:
                    if not self._closed.is_set():
                        return self._received(step)
            # Closed meanwhile by another thread, which could not close a generator at work.
            if self._steps is not None:
                self._steps.close()
            table = self._work.info.path
            raise ClosedError("the scan is closed; start another, or resume by token", table=table)

    def _next_step(self) -> Step:
        if not self._waiting:
            steps = self._begun()
            if self._ahead and not self._hurry.is_set() and not isinstance(steps, PageAhead):
                # Only now: whoever takes batches one by one works on them in between, others would gain nothing.
                steps = self._steps = PageAhead(steps, name=f"penstock-scan-{self._work.info.path}")
            self._waiting = list(reversed(next(steps)))
        return self._waiting.pop()

    def _begun(self) -> Generator[Sequence[Step], None, None] | PageAhead[Sequence[Step]]:
        if self._steps is None:
            work = self._work
            first = next(iter(work.first), None)
            # With a limit a page ahead may be one too many; beside an engine in this process a thread only costs.
            self._ahead = work.link.distant and work.request.limit is None and (first is None or first.has_more)
            self._steps = _steps(work, self._hurry.is_set)
        return self._steps

    def _received(self, step: Step) -> pa.RecordBatch:
        # While reading is ours: threads that share a pass must not mix up what it has received.
        index, (batch, next_offset) = step
        progress = self.progress
        progress.index = index
        progress.positions[index] = replace(progress.positions[index], next_offset=next_offset)
        progress.left = None if progress.left is None else progress.left - batch.num_rows
        return batch

    def close(self) -> None:
        """End the pass, and the session that it reads from; idempotent."""
        self._closed.set()
        if isinstance(self._steps, PageAhead):
            self._steps.close()
        elif self._reading.acquire(blocking=False):
            if self._steps is not None:
                self._steps.close()
            self._reading.release()


def _taken(pages: list[Page]) -> list[Page]:
    # In one step each, so that of two who take at the same time one gets the page.
    taken = []
    while pages:
        try:
            taken.append(pages.pop())
        except IndexError:
            break
    return taken


def _steps(work: ScanWork, hurried: Callable[[], bool]) -> Generator[Sequence[Step], None, None]:
    link, positions = work.link, work.positions
    left = work.request.limit
    names = [session_name() for _ in positions]
    # Taken only once it runs: a generator that never ran would not end the page's session.
    opened = dict(enumerate(_taken(work.first)))
    try:
        for index, position in enumerate(positions):
            if position.next_offset is None:
                continue
            if left == 0:
                return
            if not opened and link.distant and left is None:
                unread = {i: p for i, p in enumerate(positions) if i >= index and p.next_offset is not None}
                opened = _open_some(work, unread, names)
            asked = replace(work.request, limit=left)
            page = opened.pop(index, None)
            named = replace(_open_call(work.info, asked, position), scanner_id=names[index])
            with closing(_pages(work, asked, named, position, opened=page, hurried=hurried)) as pages:
                for portions in pages:
                    left = None if left is None else left - sum(batch.num_rows for batch, _ in portions)
                    yield [(index, portion) for portion in portions]
    finally:
        for page in opened.values():
            if page.has_more and page.scanner_id is not None:
                close_session(link, page.scanner_id)


def _open_some(work: ScanWork, positions: dict[int, BucketPosition], names: Sequence[str]) -> dict[int, Page]:
    """Return the first pages of the first bucket, and of those after it that are had in the same call.

    Sessions are opened under the buckets' `names`: whoever opens one again finds it.
    """
    if work.request.source is ScanSource.LOG or len(positions) < 2:
        return {}
    chosen = list(positions)[:OPENED_AT_ONCE_MAX]
    cut_id = work.pin.cut_id
    calls = [
        replace(_open_call(work.info, work.request, positions[index]), cut_id=cut_id, scanner_id=names[index])
        for index in chosen
    ]
    try:
        return dict(zip(chosen, work.link.node.open_scanners(calls), strict=False))
    except PenstockError:
        # Whoever opens one by one tries again, and is the one to be told.
        return {}


def _pages(
    work: ScanWork,
    request: ScanRequest,
    call: OpenScan,
    position: BucketPosition,
    *,
    opened: Page | None,
    hurried: Callable[[], bool],
) -> Generator[Sequence[Portion], None, None]:
    assert position.next_offset is not None, "a finished bucket is not read again"
    link, info = work.link, work.info
    bucket = position.table_bucket(info.path)
    if request.source is ScanSource.LOG:
        return LogScan(link, info, request, bucket, start=position.next_offset, end=position.log_offset).pages()
    return BucketScan(link, call, work.pin, opened, hurried=hurried).pages()


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
