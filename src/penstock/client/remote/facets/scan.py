"""Cuts and scan sessions of a server."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing

from penstock.client.remote.calls import RemoteCalls
from penstock.client.remote.stream_affinity import StreamAffinity, rows_affinity
from penstock.errors import (
    InvalidError,
)
from penstock.model.node.calls import (
    Cut,
    FirstRows,
    OpenScan,
    Page,
    RowCount,
    RowPass,
    ScannerInfo,
)
from penstock.model.place.bucket import TableBucket
from penstock.wire import calls as wire


class RemoteScan:
    """Cuts and scan sessions of a server. Implements `penstock.model.node.facets.scan.ScanFacet`."""

    def __init__(self, calls: RemoteCalls) -> None:
        self._calls = calls
        self._scanners = StreamAffinity()

    def open_cut(
        self,
        table_id: int,
        *,
        as_of: Mapping[TableBucket, int] | None = None,
        buckets: Sequence[TableBucket] | None = None,
    ) -> Cut:
        """Take and pin the present cut, or pin the one given."""
        named = None if buckets is None else list(buckets)
        return self._calls.ask(wire.OPEN_CUT, table_id=table_id, as_of=as_of, buckets=named)

    def open_cut_at(self, table_id: int, timestamp_ms: int, *, buckets: Sequence[TableBucket] | None = None) -> Cut:
        """Pin the cut of a moment of the past."""
        named = None if buckets is None else list(buckets)
        return self._calls.ask(wire.OPEN_CUT_AT, table_id=table_id, timestamp_ms=timestamp_ms, buckets=named)

    def open_cuts(self, table_ids: Sequence[int]) -> builtins.list[Cut]:
        """Take and pin one cut of several tables, all of one moment."""
        cuts = self._calls.ask(wire.OPEN_CUTS, table_ids=tuple(table_ids))
        if len(cuts) != len(table_ids):
            raise InvalidError("the server cut other tables than were asked for", asked=len(table_ids), cut=len(cuts))
        return cuts

    def release_cut(self, cut_id: str) -> None:
        """Unpin a cut; idempotent."""
        self._calls.ask(wire.RELEASE_CUT, cut_id=cut_id)

    def named_cut(self, table_id: int, name: str, ttl_ms: int) -> Cut:
        """Return the cut of that name, which the first to ask fixes; kept for `ttl_ms` after the last to ask."""
        return self._calls.ask(wire.NAMED_CUT, table_id=table_id, name=name, ttl_ms=ttl_ms)

    def count(self, call: RowPass) -> RowCount:
        """Count rows, for a second or two."""
        return self._calls.ask(wire.COUNT_ROWS, call=call)

    def first(self, call: RowPass) -> FirstRows:
        """Return the first rows in an order, looking for a second or two."""
        return self._calls.ask(wire.FIRST_ROWS_OF, call=call)

    def open(self, call: OpenScan) -> Page:
        """Open a scan session and return its first page (call 0)."""
        affinity = rows_affinity(call)
        page = self._calls.ask(wire.OPEN_SCANNER, affinity=affinity, call=call)
        self._scanners.note(page, affinity)
        return page

    def open_some(self, calls: Sequence[OpenScan]) -> list[Page]:
        """Open scan sessions up to the first with more than a page; return their first pages."""
        affinity = rows_affinity(calls[0])
        pages = self._calls.ask(wire.OPEN_SCANNERS, affinity=affinity, calls=tuple(calls))
        if not 0 < len(pages) <= len(calls):
            raise InvalidError("the server opened other scans than were asked for", asked=len(calls), opened=len(pages))
        self._scanners.note(pages[-1], affinity)
        return pages

    def next_page(self, scanner_id: str, call_seq_id: int) -> Page:
        """Return the page of that call number: the next one, or the latest again."""
        affinity = self._scanners.get(scanner_id)
        page = self._calls.ask(wire.NEXT_PAGE, affinity=affinity, scanner_id=scanner_id, call_seq_id=call_seq_id)
        if not page.has_more:
            self._scanners.forget(scanner_id)
        return page

    def pages(self, scanner_id: str, call_seq_id: int) -> Generator[Page, None, None]:
        """Yield the pages from that call number on; the next is asked for while one still arrives."""
        numbers = ({"scanner_id": scanner_id, "call_seq_id": number} for number in itertools.count(call_seq_id))
        affinity = self._scanners.get(scanner_id)
        with closing(self._calls.ask_each(wire.NEXT_PAGE, numbers, affinity=affinity)) as pages:
            for page in pages:
                yield page
                if not page.has_more:
                    self._scanners.forget(scanner_id)
                    return

    def close(self, scanner_id: str) -> None:
        """End a scan session; idempotent."""
        self._scanners.forget(scanner_id)
        self._calls.ask(wire.CLOSE_SCANNER, scanner_id=scanner_id)

    def read_token(self, token: bytes) -> OpenScan:
        """Return the call that goes on where the page with that resume token ended."""
        return self._calls.ask(wire.READ_TOKEN, token=token)

    def list(self) -> list[ScannerInfo]:
        """Return the open scan sessions."""
        return self._calls.ask(wire.LIST_SCANNERS)

    def kill(self, scanner_id: str) -> None:
        """End a scan session of any principal."""
        self._calls.ask(wire.KILL_SCANNER, scanner_id=scanner_id)
