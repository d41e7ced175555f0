"""A scan session: the call numbers of one scan, and the page that each stands for.

The next number gets the next page. The latest number again gets the same page again, read anew from
its offsets: a reply that was lost costs nothing to have kept. Any other number is refused and changes
nothing. Calls that overlap wait for each other.

A session whose last page was given is *drained*: it holds no view and no pin any more, and gives its
last page again for as long as the snapshot happens to be readable.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from penstock.engine.rows.known_columns import check_there, named
from penstock.engine.scan.page_reader import APART_BYTES_MIN, PageReader, PageRows, PageSpan
from penstock.engine.scan.plan import ScanPlan
from penstock.engine.scan.read_ahead import Place, WaitingPage
from penstock.engine.table.open_table import OpenTable
from penstock.errors import InvalidScanRequestError, SchemaMismatchError, UnknownOrExpiredScannerError
from penstock.model.node.calls import Page, ScannerInfo
from penstock.model.place.bucket import TableBucket
from penstock.runtime.clock import Clock
from penstock.tablet.view.pins import PinHolder, PinKind


@dataclass(slots=True, eq=False)
class ScanSession:
    """One open scan. `lock` is held while a page is read; the rest of what changes is the registry's."""

    scanner_id: str
    table: OpenTable
    name: TableBucket
    plan: ScanPlan
    principal: str
    reader: PageReader | None
    limit: int | None
    clock: Clock
    cut_id: str | None
    opened_ms: int
    opened_wall_ms: int
    used_ms: int
    apart_bytes_min: int = APART_BYTES_MIN
    calls_under_way: int = 0
    latest: int = -1
    span: PageSpan | None = None
    pages: int = 0
    rows: int = 0
    bytes: int = 0
    latest_bytes: int = 0
    ahead: WaitingPage | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def pin_holder(self) -> PinHolder:
        """Return what the session's pin is held by."""
        return pin_holder(self.scanner_id)

    @property
    def drained(self) -> bool:
        """Tell whether the last page was given."""
        return self.reader is None

    def page(self, call_seq_id: int) -> Page:
        """Return the page of a call number; only under `lock`.

        Raises:
            InvalidScanRequestError: the number is neither the next nor the latest.
            UnknownOrExpiredScannerError: the session is drained, and this is not its last page.
            SchemaMismatchError: a column that it reads was dropped, or widened beyond the type that it began with.
        """
        try:
            return self._page(call_seq_id)
        except SchemaMismatchError as error:
            raise named(error, self.table.known_schema(self.plan.schema_id)) from error

    def _page(self, call_seq_id: int) -> Page:
        if call_seq_id == self.latest and self.span is not None:
            return self._shown(self.span, self._again(self.span))
        if self.reader is None:
            raise unknown(self.scanner_id)
        if call_seq_id != self.latest + 1:
            raise InvalidScanRequestError(
                "a call number is the next one or the latest again",
                scanner_id=self.scanner_id,
                call_seq_id=call_seq_id,
                latest=self.latest,
            )
        span, rows = (self.ahead.span, self.ahead.rows) if self.ahead is not None else self.reader.next(self.limit)
        self.latest, self.span, self.ahead = call_seq_id, span, None
        self.rows += rows.row_count
        self.limit = None if self.limit is None else self.limit - rows.row_count
        if not span.has_more:
            self.reader = None
        return self._shown(span, rows)

    def read_ahead(self, place: Place) -> None:
        """Read the next page, for the reader who will ask for it; without a limit only, which it might be beyond."""
        with self.lock:
            if self.reader is not None and self.limit is None and self.ahead is None:
                self.ahead = WaitingPage(*self.reader.next(None), place)

    def rest(self) -> None:
        """Hold no rows between calls, unless a page is being read."""
        if self.lock.acquire(blocking=False):
            try:
                if self.reader is not None:
                    self.reader.rest(None if self.ahead is None else self.ahead.span)
                    self.ahead = None
            finally:
                self.lock.release()

    def info(self, now_ms: int) -> ScannerInfo:
        """Return what `list_scanners` shows."""
        return ScannerInfo(
            scanner_id=self.scanner_id,
            bucket=self.name,
            log_offset=self.plan.log_offset,
            principal=self.principal,
            opened_ms=self.opened_wall_ms,
            idle_ms=0 if self.calls_under_way else now_ms - self.used_ms,
            pages=self.pages,
            rows=self.rows,
            bytes=self.bytes,
        )

    def _again(self, span: PageSpan) -> PageRows:
        if self.reader is not None:
            return self.reader.again(span)
        view = self.table.view_of(self.plan.bucket)
        if view is None or view.base > self.plan.log_offset:
            raise unknown(self.scanner_id)
        reader = PageReader(view, self.plan, span.read_from, self.clock, apart_bytes_min=self.apart_bytes_min)
        return reader.again(span)

    def _shown(self, span: PageSpan, rows: PageRows) -> Page:
        present = self.table.info
        if present.schema_id != self.plan.schema_id:
            check_there(present.schema, self.plan.columns)
        page = Page(
            scanner_id=self.scanner_id,
            log_offset=self.plan.log_offset,
            batches=rows.batches,
            has_more=span.has_more,
            next_offset=span.end,
            resume_token=self.plan.token(span.end, self.limit),
            inner_ends=rows.inner_ends,
        )
        self.pages += 1
        self.latest_bytes = page.bytes
        self.bytes += self.latest_bytes
        return page


def pin_holder(scanner_id: str) -> PinHolder:
    """Return what the pin of a session is held by."""
    return PinHolder(PinKind.SCANNER, scanner_id)


def unknown(scanner_id: str) -> UnknownOrExpiredScannerError:
    """Return the one error for a session that is not there, for whatever reason."""
    return UnknownOrExpiredScannerError(
        "the scanner is unknown or has expired; go on with the last page's resume token", scanner_id=scanner_id
    )
