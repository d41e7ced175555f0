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
from penstock.engine.scan.named_cuts import NamedCuts
from penstock.engine.scan.page_reader import APART_BYTES_MIN, PageReader
from penstock.engine.scan.pass_calls import FindLeased, HeldBuckets, PassCalls
from penstock.engine.scan.plan import ScannedRows, ScanPlan
from penstock.engine.scan.read_ahead import ReadAhead
from penstock.engine.scan.registry import ScannerRegistry
from penstock.engine.scan.resumed_call import resumed_call
from penstock.engine.scan.session import ScanSession, pin_holder
from penstock.engine.settings import PAGE_BYTES_MAX, Settings
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.pins import not_led, pin, unpin
from penstock.errors import (
    InvalidScanRequestError,
    LimitError,
    OffsetOutOfRangeError,
    PenstockError,
    UnknownOrExpiredScannerError,
    UnsupportedError,
)
from penstock.model.node.calls import OpenScan, Page, ScannerInfo
from penstock.model.place.bucket import BucketId
from penstock.runtime.clock import Clock
from penstock.runtime.metrics import Metrics
from penstock.tablet.view.view import TabletView

_KNOWN_ROWS_MAX: Final = 256


class ScanService(PassCalls):
    """The scan sessions of a node and the cuts that they read at, for one principal.

    Implements `penstock.model.node.facets.scan.ScanFacet`. Thread-safe by the locks of its registry, cuts and
    sessions; holds nothing else that changes. A session keeps the cut that it was opened with.
    """

    def __init__(
        self,
        tables: Callable[[int], OpenTable],
        settings: Settings,
        clock: Clock,
        metrics: Metrics,
        *,
        cuts: Cuts,
        named_cuts: NamedCuts,
        identity: Identity,
        principal: str,
        holding: Callable[[BucketId], OpenTable],
        find_leased: FindLeased,
        check_open: Callable[[], None],
        apart_bytes_min: int = APART_BYTES_MIN,
    ) -> None:
        """Scan what `tables` finds; `holding` finds the table of a bucket also after its drop.

        `check_open` refuses calls to a node that was closed. Slices of `apart_bytes_min` on average are sent apart.
        """
        held = HeldBuckets(holding, find_leased)
        super().__init__(tables, cuts, named_cuts, held, clock, principal=principal, check_open=check_open)
        self._settings = settings
        self._identity = identity
        self._apart_bytes_min = apart_bytes_min
        self._ahead = ReadAhead(MemoryBudget.of(settings).pages_ahead(settings.page_bytes))
        # To work them out takes as long as to read a small page, and the same few are asked for again and again.
        self._known_rows: dict[tuple[object, ...], ScannedRows] = {}
        self._registry = ScannerRegistry(settings, clock, metrics)
        self._pages = metrics.counter("penstock_scanner_pages")
        self._bytes = metrics.counter("penstock_scanner_bytes")

    def open(self, call: OpenScan) -> Page:
        """Open a session over one bucket and return its first page (call 0); without rows there is no session.

        Raises:
            TableNotFoundError: the table was dropped.
            PartitionNotFoundError: the partition does not exist (any more).
            InvalidError: bucket, columns, filter, limit, start or page size are not what they may be.
            OffsetOutOfRangeError: `as_of` is below the base or beyond the end.
            LeaseNotFoundError: the lease is unknown or has expired.
            UnknownOrExpiredScannerError: the cut is not pinned any more; open it again.
            TooManyScannersError: the bucket or the node has no room for another session.
            NotLeaderError: this node does not lead the bucket.
        """
        self._check_open()
        scanner_id = _session_name(call)
        held = self._held(call.table_id, call.bucket, call.as_of, cut_id=call.cut_id, lease_id=call.lease_id)
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

    def _open(self, call: OpenScan, scanner_id: str, held: tuple[OpenTable, BucketId] | None) -> Page:
        table, bucket = (self._tables(call.table_id), None) if held is None else held
        plan = self._plan(table, call, bucket)
        if call.cut_id is not None:
            self._cuts.touch(call.cut_id)
        generation = self._registry.take_slot(plan.bucket, self._principal)
        session: ScanSession | None = None
        admitted = False
        try:
            session = self._begin(table, plan, call, scanner_id)
            page = session.page(0)
            if table.info.schema_id != call.schema_id:
                page = replace(page, schema_id=table.info.schema_id)
            if not page.has_more and not page.rows:
                return replace(page, scanner_id=None)
            if call.pin and page.has_more:
                page = self._pin(session, page)
            self._registry.admit(session, generation)
            admitted = True
        finally:
            if not admitted:
                self._registry.give_slot(plan.bucket, self._principal)
                if session is not None:
                    self._give_up(session, call)
        return self._given(session, page)

    def open_some(self, calls: Sequence[OpenScan]) -> list[Page]:
        """Open sessions until one has more than a page, or their pages fill one together.

        Raises:
            InvalidScanRequestError: there is no call.
            PenstockError: as `open` has it, for the first call; an error of a later call comes when it is asked alone.
        """
        if not calls:
            raise InvalidScanRequestError("name a scan to open")
        pages = [self.open(calls[0])]
        room = self._settings.page_bytes - pages[0].bytes
        for call in calls[1:]:
            if room <= 0 or pages[-1].has_more:
                break
            try:
                pages.append(self.open(call))
            except PenstockError:
                break
            room -= pages[-1].bytes
        return pages

    def next_page(self, scanner_id: str, call_seq_id: int) -> Page:
        """Return the page of a call number: the next one, or the latest again.

        Raises:
            InvalidScanRequestError: any other number; the session is intact.
            UnknownOrExpiredScannerError: there is no such session, or not any more.
            PermissionDeniedError: it is another principal's.
            NotLeaderError: this node does not lead the bucket any more.
        """
        self._check_open()
        with self._registry.call(scanner_id, self._principal) as session, session.lock:
            page = session.page(call_seq_id)
            self._registry.settle(session)
        if session.cut_id is not None:
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
        return resumed_call(token, self._tables, self._identity)

    def read_ahead(self, scanner_id: str) -> None:
        """Read a session's next page while the latest is on its way, if there may be one and there is room for it."""
        session = self._registry.find(scanner_id)
        if session is not None and session.limit is None and not session.drained:
            self._ahead.start(session.read_ahead)

    def close(self, scanner_id: str) -> None:
        """End a session; idempotent, and safe while a page of it is being read.

        Raises:
            PermissionDeniedError: it is another principal's.
        """
        self._registry.close(scanner_id, self._principal)

    def forsake(self, scanner_id: str) -> None:
        """End a session that was never called again after it was opened, for its caller's connection broke."""
        self._registry.forsake(scanner_id)

    def kill(self, scanner_id: str) -> None:
        """End a session, whichever principal has it.

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

    def _plan(self, table: OpenTable, call: OpenScan, held: BucketId | None) -> ScanPlan:
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
        database = self._identity.database
        return ScanPlan(
            call.schema_id, bucket, 0, *self._rows(table, call), page_bytes, call.end, database, call.offsets
        )

    def _rows(self, table: OpenTable, call: OpenScan) -> ScannedRows:
        schema = table.known_schema(call.schema_id)
        asked = (table.info.table_id, call.schema_id, call.columns, call.filter)
        rows = self._known_rows.get(asked)
        if rows is None:
            if len(self._known_rows) >= _KNOWN_ROWS_MAX:
                self._known_rows.clear()
            rows = self._known_rows[asked] = ScannedRows.of(schema, call.columns, call.filter or b"")
        return rows

    def _begin(self, table: OpenTable, plan: ScanPlan, call: OpenScan, scanner_id: str) -> ScanSession:
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
            principal=self._principal,
            reader=PageReader(view, plan, call.start, self._clock, apart_bytes_min=self._apart_bytes_min),
            limit=call.limit,
            clock=self._clock,
            cut_id=call.cut_id,
            opened_ms=now_ms,
            opened_wall_ms=self._clock.wall_ms(),
            used_ms=now_ms,
            apart_bytes_min=self._apart_bytes_min,
        )

    def _pin(self, session: ScanSession, page: Page) -> Page:
        # The session's own pin holds the snapshot meanwhile, but goes with the session; a cut outlives it.
        offsets = {session.name: page.log_offset}
        cut = self._cuts.open(session.table, offsets, [session.name], principal=self._principal)
        session.cut_id = cut.cut_id
        return replace(page, cut_id=cut.cut_id)

    def _give_up(self, session: ScanSession, call: OpenScan) -> None:
        unpin(session.table, session.pin_holder, [session.plan.bucket])
        if session.cut_id is not None and session.cut_id != call.cut_id:
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
