"""One bucket of a scan, page by page, each row once, through lost replies and lost sessions.

event                         what is asked of the node next
----------------------------  ----------------------------------------------------------------
a page, and there is more     the page of the next call number
a reply is lost               the page of the same call number; of an opening, the same name
the session is gone           a new session at the same snapshot, at the offset after the last page
no room for a session         the same again, for up to ten seconds
the last page, or `close()`   nothing; a session that has more is closed
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from penstock.client.link.link import Link
from penstock.client.link.retry import worth_retrying
from penstock.errors import (
    InvalidScanRequestError,
    NotLeaderError,
    PenstockError,
    TooManyScannersError,
    UnknownOrExpiredScannerError,
)
from penstock.model.node.calls import OpenScan, Page

Portion = tuple[pa.RecordBatch, int | None]
"""Rows, and the offset at which the bucket goes on after them; None at its end."""

SESSION_LOST = (UnknownOrExpiredScannerError, NotLeaderError)
OPEN_DEADLINE_MS = 10_000
"""How long opening waits while the node has no room for another session."""


class Pin(Protocol):
    """What keeps a scan's snapshot readable."""

    @property
    def cut_id(self) -> str | None:
        """Return the cut that pins the snapshot now; None if something else does."""

    def renew(self) -> None:
        """Pin the same snapshot again."""


class BucketScan:
    """Reads one bucket at a snapshot; `call` says which, what, and from where; `opened` is its first page, if known.

    A `hurried` caller takes all rows as soon as they come, so that the node may send pages before they are asked for.
    """

    def __init__(
        self,
        link: Link,
        call: OpenScan,
        pin: Pin,
        opened: Page | None = None,
        *,
        hurried: bool = False,
    ) -> None:
        self._link = link
        self._call = call
        self._pin = pin
        self._opened = opened
        self._hurried = hurried
        self._name = call.scanner_id or session_name()
        self._scanner_id: str | None = None

    def pages(self) -> Generator[Sequence[Portion], None, None]:
        """Yield the rows of each page, in portions; closing the generator ends the session.

        Raises:
            OffsetOutOfRangeError: the snapshot can no longer be read.
            PenstockError: as the node answered, once that is not worth retrying.
        """
        try:
            for page in self._pages():
                self._pass(page)
                if not page.has_more:
                    self._scanner_id = None
                last = (page.batches[-1], page.next_offset if page.has_more else None)
                yield [*zip(page.batches, page.inner_ends, strict=False), last]
        finally:
            self._close()

    def _pages(self) -> Generator[Page, None, None]:
        page, call_seq_id = self._first(), 0
        yield page
        if page.has_more and self._hurried:
            assert self._scanner_id is not None, "a page that has more belongs to a session"
            with closing(self._link.node.scan.pages(self._scanner_id, 1)) as pages:
                while page.has_more:
                    try:
                        page = next(pages)
                    except PenstockError:
                        # Asked for by its number below: the page comes, or the error again if no retry helps.
                        break
                    call_seq_id += 1
                    yield page
        while page.has_more:
            page, call_seq_id = self._next(call_seq_id + 1)
            yield page

    def _first(self) -> Page:
        page, self._opened = self._opened, None
        if page is None:
            return self._open()
        self._scanner_id, self._name = page.scanner_id, session_name()
        return page

    def _pass(self, page: Page) -> None:
        limit = None if self._call.limit is None else self._call.limit - page.rows
        self._call = replace(self._call, start=page.next_offset, limit=limit)

    def _next(self, call_seq_id: int) -> tuple[Page, int]:
        scanner_id = self._scanner_id
        assert scanner_id is not None, "a page that has more belongs to a session"
        try:
            page = self._link.reading_retry.run(
                lambda: self._link.node.scan.next_page(scanner_id, call_seq_id),
                when=lambda error: worth_retrying(error) and not isinstance(error, SESSION_LOST),
            )
        except (*SESSION_LOST, InvalidScanRequestError) as error:
            if isinstance(error, InvalidScanRequestError) and not self._hurried:
                raise
            # The node may have sent the page after this one, too, and lost both: then it does not give this one again.
            self._close()
            self._pin.renew()
            return self._open(), 0
        return page, call_seq_id

    def _open(self) -> Page:
        crowded = replace(self._link.retry, deadline_ms=min(OPEN_DEADLINE_MS, self._link.retry.deadline_ms))
        page = crowded.run(
            lambda: self._link.reading_retry.run(self._try_open, when=_worth_opening_again),
            when=lambda error: isinstance(error, TooManyScannersError),
        )
        self._scanner_id, self._name = page.scanner_id, session_name()
        return page

    def _try_open(self) -> Page:
        try:
            return self._open_named()
        except UnknownOrExpiredScannerError:
            # The cut expired. It is renewed at once: after a pause it could have expired again.
            self._pin.renew()
            return self._open_named()

    def _open_named(self) -> Page:
        # Under one name until the node answers: asked again, it opens the same session.
        return self._link.node.scan.open(replace(self._call, cut_id=self._pin.cut_id, scanner_id=self._name))

    def _close(self) -> None:
        scanner_id, self._scanner_id = self._scanner_id, None
        close_session(self._link, scanner_id)


def session_name() -> str:
    """Return a name for a session that no other session has."""
    return uuid.uuid4().hex


def close_session(link: Link, scanner_id: str | None) -> None:
    """End a scan session, if there is one, as far as the node can be reached; it would expire by itself."""
    if scanner_id is not None and not link.closed:
        with suppress(PenstockError):
            link.node.scan.close(scanner_id)


def _worth_opening_again(error: PenstockError) -> bool:
    if isinstance(error, TooManyScannersError):
        return False
    return isinstance(error, UnknownOrExpiredScannerError) or worth_retrying(error)
