"""Scan sessions, as a node offers them: open, next page, close, go on by token.

Opening checks everything first, then takes a slot, the snapshot X from the view, and a pin at X. The
registry says which sessions live; a session says which page a call number stands for.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Final

from penstock.engine.catalog.identity import Identity
from penstock.engine.home.memory_budget import MemoryBudget
from penstock.engine.scan.cuts import Cuts
from penstock.engine.scan.page_reader import PageReader
from penstock.engine.scan.plan import ScannedRows, ScanPlan
from penstock.engine.scan.read_ahead import ReadAhead
from penstock.engine.scan.registry import ScannerRegistry
from penstock.engine.scan.resume_token import ResumeToken
from penstock.engine.scan.session import ScanSession, pin_holder
from penstock.engine.settings import PAGE_BYTES_MAX, Settings
from penstock.engine.table.open_table import LiveTable
from penstock.engine.table.pins import not_led, pin, unpin
from penstock.errors import (
    InvalidError,
    InvalidScanRequestError,
    LimitError,
    NotFoundError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
    PenstockError,
    TableNotFoundError,
    UnknownOrExpiredScannerError,
    UnsupportedError,
)
from penstock.model.node.calls import OpenScan, Page, ScannerInfo
from penstock.model.node.principal import current
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.runtime.clock import Clock
from penstock.runtime.metrics import Metrics
from penstock.tablet.view.view import TabletView

_KNOWN_ROWS_MAX: Final = 256


class Scanners:
    """The scan sessions of a node. Thread-safe. A session keeps the cut that it was opened with."""

    def __init__(
        self,
        tables: Callable[[int], LiveTable],
        settings: Settings,
        clock: Clock,
        metrics: Metrics,
        cuts: Cuts | None = None,
        *,
        identity: Identity | None = None,
    ) -> None:
        self._tables = tables
        self._settings = settings
        self._clock = clock
        self._cuts = cuts
        self._identity = identity
        self._ahead = ReadAhead(MemoryBudget.of(settings).pages_ahead(settings.page_bytes))
        # To work them out takes as long as to read a small page, and the same few are asked for again and again.
        self._known_rows: dict[tuple[object, ...], ScannedRows] = {}
        self._registry = ScannerRegistry(settings, clock, metrics)
        self._pages = metrics.counter("penstock_scanner_pages")
        self._bytes = metrics.counter("penstock_scanner_bytes")

    def open(self, call: OpenScan, held: tuple[LiveTable, BucketId] | None = None) -> Page:
        """Open a session over one bucket and return its first page (call 0); without rows there is no session.

        `held` is the bucket of a reader who holds it, for its name may stand for another by now.

        Raises:
            TableNotFoundError: the table was dropped.
            PartitionNotFoundError: the partition does not exist (any more).
            InvalidError: bucket, columns, filter, limit, start or page size are not what they may be.
            OffsetOutOfRangeError: `as_of` is below the base or beyond the end.
            UnknownOrExpiredScannerError: the cut is not pinned any more; open it again.
            TooManyScannersError: the bucket or the node has no room for another session.
            NotLeaderError: this node does not lead the bucket.
        """
        scanner_id = _session_name(call)
        with self._registry.opening(scanner_id):
            return self._opened_before(call) or self._open(call, scanner_id, held)

    def _opened_before(self, call: OpenScan) -> Page | None:
        """Return the first page of a session again whose opening was not heard of, None if there is none."""
        if call.scanner_id is None:
            return None
        try:
            page = self.next_page(call.scanner_id, 0)
        except UnknownOrExpiredScannerError:
            return None
        session = self._registry.find(call.scanner_id)
        return replace(page, cut_id=session.cut_id if session is not None and call.pin else None)

    def _open(self, call: OpenScan, scanner_id: str, held: tuple[LiveTable, BucketId] | None) -> Page:
        table, bucket = (self._tables(call.table_id), None) if held is None else held
        plan = self._plan(table, call, bucket)
        if call.cut_id is not None and self._cuts is not None:
            self._cuts.touch(call.cut_id)
        term = self._registry.take_slot(plan.bucket)
        session: ScanSession | None = None
        admitted = False
        try:
            session = self._begin(table, plan, call, scanner_id)
            page = session.page(0)
            if not page.has_more and not page.rows:
                return replace(page, scanner_id=None)
            if call.pin and page.has_more:
                page = self._pin(session, page)
            self._registry.admit(session, term)
            admitted = True
        finally:
            if not admitted:
                self._registry.give_slot(plan.bucket)
                if session is not None:
                    self._give_up(session, call)
        return self._given(session, page)

    def open_some(self, calls: Sequence[OpenScan], open_one: Callable[[OpenScan], Page]) -> list[Page]:
        """Open sessions by `open_one` until one has more than a page, or their pages fill one together.

        Raises:
            InvalidScanRequestError: there is no call.
            PenstockError: as `open` has it, for the first call; whoever asks for a later one is told then.
        """
        if not calls:
            raise InvalidScanRequestError("name a scan to open")
        pages = [open_one(calls[0])]
        room = self._settings.page_bytes - pages[0].bytes
        for call in calls[1:]:
            if room <= 0 or pages[-1].has_more:
                break
            try:
                pages.append(open_one(call))
            except PenstockError:
                break
            room -= pages[-1].bytes
        return pages

    def next_page(self, scanner_id: str, call_seq_id: int) -> Page:
        """Return the page of a call number: the next one, or the latest again.

        Raises:
            InvalidScanRequestError: any other number; the session is intact.
            UnknownOrExpiredScannerError: there is no such session, or not any more.
            PermissionDeniedError: it is somebody else's.
            NotLeaderError: this node does not lead the bucket any more.
        """
        with self._registry.call(scanner_id) as session, session.lock:
            page = session.page(call_seq_id)
            self._registry.settle(session)
        if session.cut_id is not None and self._cuts is not None:
            with suppress(UnknownOrExpiredScannerError):
                self._cuts.touch(session.cut_id)
        return self._given(session, page)

    def pages(self, scanner_id: str, call_seq_id: int) -> Generator[Page, None, None]:
        """Yield the pages from that call number on, as `next_page` has them."""
        for number in count(call_seq_id):
            page = self.next_page(scanner_id, number)
            yield page
            if not page.has_more:
                return

    def read_token(self, token: bytes) -> OpenScan:
        """Return the call that goes on, at the same snapshot, where the page with that token ended.

        Raises:
            InvalidError: the bytes are no token of a scan of this database.
            TableNotFoundError: the table was dropped.
            PartitionNotFoundError: the partition was dropped.
        """
        stored = ResumeToken.decode(token)
        table = self._tables(stored.bucket.table_id)
        try:
            schema = table.known_schema(stored.schema_id)
        except TableNotFoundError:
            raise
        except NotFoundError as error:
            raise InvalidError("the resume token is of another node's table", table=table.info.path) from error
        columns = [schema.column_by_id(column) for column in stored.columns]
        names = tuple(column.name for column in columns if column is not None)
        if len(names) < len(columns):
            raise InvalidError("the resume token is of another node's table", table=table.info.path)
        bucket = _named(table, stored)
        if stored.database is not None and self._identity is not None:
            self._identity.check_origin(stored.database, stored.bucket.table_id, {bucket: stored.log_offset})
        return OpenScan(
            table_id=stored.bucket.table_id,
            schema_id=stored.schema_id,
            bucket=bucket,
            columns=names,
            filter=stored.filter,
            limit=stored.limit,
            page_bytes=stored.page_bytes,
            as_of=stored.log_offset,
            start=stored.next_offset,
            end=stored.end,
        )

    def read_ahead(self, scanner_id: str) -> None:
        """Read a session's next page while the latest is on its way, if there may be one and there is room for it."""
        session = self._registry.find(scanner_id)
        if session is not None and session.limit is None and not session.drained:
            self._ahead.start(session.read_ahead)

    def close(self, scanner_id: str) -> None:
        """End a session; idempotent, and safe while a page of it is being read.

        Raises:
            PermissionDeniedError: it is somebody else's.
        """
        self._registry.close(scanner_id)

    def forsake(self, scanner_id: str) -> None:
        """End a session that was never called again after it was opened, for its caller's connection broke."""
        self._registry.forsake(scanner_id)

    def kill(self, scanner_id: str) -> None:
        """End anybody's session.

        Raises:
            UnknownOrExpiredScannerError: there is none.
        """
        self._registry.kill(scanner_id)

    def close_bucket(self, bucket: BucketId) -> None:
        """End the sessions of a bucket that is given up, after it left the table's view."""
        self._registry.close_bucket(bucket)

    def close_all(self) -> None:
        """End all sessions."""
        self._registry.close_all()
        self._ahead.close()

    def reap(self) -> int:
        """End the sessions that have expired; return how many. To be called now and then."""
        return self._registry.reap()

    def list(self) -> list[ScannerInfo]:
        """Return the open sessions."""
        return self._registry.infos()

    def _plan(self, table: LiveTable, call: OpenScan, held: BucketId | None) -> ScanPlan:
        bucket = table.bucket_id(call.bucket) if held is None else held
        if not table.info.keyed:
            raise UnsupportedError("a log table has no live rows; read its log", table=table.info.path)
        if call.limit is not None and call.limit < 0:
            raise InvalidScanRequestError("a limit is a number of rows", limit=call.limit)
        if call.start < 0 or (call.as_of is not None and call.start > call.as_of):
            raise InvalidScanRequestError(
                "a scan starts at an offset of its snapshot", start=call.start, as_of=call.as_of
            )
        if call.pin and (call.cut_id is not None or call.lease_id is not None):
            raise InvalidScanRequestError("a scan under a cut or a lease needs no pin of its own")
        if call.end is not None and call.end < call.start:
            raise InvalidScanRequestError("a scan ends after it starts", start=call.start, end=call.end)
        page_bytes = self._settings.page_bytes if call.page_bytes is None else call.page_bytes
        if page_bytes < 1:
            raise InvalidScanRequestError("a page has at least one byte", page_bytes=page_bytes)
        if page_bytes > PAGE_BYTES_MAX:
            raise LimitError("a page is smaller than that; ask for less", page_bytes=page_bytes, max=PAGE_BYTES_MAX)
        database = None if self._identity is None else self._identity.database
        return ScanPlan(call.schema_id, bucket, 0, *self._rows(table, call), page_bytes, call.end, database)

    def _rows(self, table: LiveTable, call: OpenScan) -> ScannedRows:
        schema = table.known_schema(call.schema_id)
        asked = (table.info.table_id, call.schema_id, call.columns, call.filter)
        rows = self._known_rows.get(asked)
        if rows is None:
            if len(self._known_rows) >= _KNOWN_ROWS_MAX:
                self._known_rows.clear()
            rows = self._known_rows[asked] = ScannedRows.of(schema, call.columns, call.filter or b"")
        return rows

    def _begin(self, table: LiveTable, plan: ScanPlan, call: OpenScan, scanner_id: str) -> ScanSession:
        while True:
            view = table.view_of(plan.bucket)
            if view is None:
                raise not_led(call.bucket)
            x = _snapshot(view, call)
            try:
                pin(table, pin_holder(scanner_id), {plan.bucket: x})
                break
            except OffsetOutOfRangeError:
                # Compaction passed between view and pin: for the present, a newer view is beyond it.
                if call.as_of is not None:
                    raise
        plan = replace(plan, log_offset=x)
        now_ms = self._clock.monotonic_ms()
        return ScanSession(
            scanner_id=scanner_id,
            table=table,
            name=call.bucket,
            plan=plan,
            principal=current(),
            reader=PageReader(view, plan, call.start, self._clock),
            limit=call.limit,
            clock=self._clock,
            cut_id=call.cut_id,
            opened_ms=now_ms,
            opened_wall_ms=self._clock.wall_ms(),
            used_ms=now_ms,
        )

    def _pin(self, session: ScanSession, page: Page) -> Page:
        # The session's own pin holds the snapshot meanwhile, but goes with the session; a cut outlives it.
        assert self._cuts is not None, "a node that takes scans has cuts"
        cut = self._cuts.open(session.table, {session.name: page.log_offset}, [session.name])
        session.cut_id = cut.cut_id
        return replace(page, cut_id=cut.cut_id)

    def _give_up(self, session: ScanSession, call: OpenScan) -> None:
        unpin(session.table, session.pin_holder, [session.plan.bucket])
        if session.cut_id is not None and session.cut_id != call.cut_id and self._cuts is not None:
            self._cuts.release(session.cut_id)

    def _given(self, session: ScanSession, page: Page) -> Page:
        self._pages.inc()
        self._bytes.inc(session.latest_bytes)
        return page


def _session_name(call: OpenScan) -> str:
    if call.scanner_id is None:
        return uuid.uuid4().hex
    if re.fullmatch(r"[0-9a-f]{32}", call.scanner_id) is None:
        raise InvalidScanRequestError("a session's name is 32 hex digits", scanner_id=call.scanner_id[:80])
    return call.scanner_id


def _snapshot(view: TabletView, call: OpenScan) -> int:
    if call.as_of is None:
        if call.start > view.visible:
            raise InvalidScanRequestError(
                "a scan starts at an offset of its snapshot", start=call.start, log_offset=view.visible
            )
        return view.visible
    if call.as_of > view.visible:
        raise OffsetOutOfRangeError(
            "offset is beyond the end of the bucket", bucket=call.bucket, offset=call.as_of, end=view.visible
        )
    return call.as_of


def _named(table: LiveTable, token: ResumeToken) -> TableBucket:
    try:
        return table.name(token.bucket)
    except PartitionNotFoundError as error:
        if table.info.partitioned and 0 <= token.bucket.bucket < table.info.buckets:
            raise
        raise InvalidError("the resume token is of another node's table", table=table.info.path) from error
