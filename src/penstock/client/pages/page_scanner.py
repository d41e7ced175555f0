"""The lowest level of a scan: one bucket, one page per call, nothing retried."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import Final

from penstock.client.link.link import Link
from penstock.client.pages.bucket_scan import session_name
from penstock.errors import InvalidError, InvalidScanRequestError
from penstock.model.node.calls import OpenScan, Page

_DONE: Final = "the scan has no more pages; open another scanner"


class PageScanner:
    """A scan session over one bucket, called by hand. Not thread-safe.

    `open()` is call 0, `next(1)`, `next(2)`, ... follow; the latest number again gives the same page
    again. Every error reaches the caller as the node gave it.
    """

    def __init__(self, link: Link, call: OpenScan) -> None:
        self._link = link
        # Under one name: opened again after a reply that was lost, it is the same session.
        self._call = replace(call, scanner_id=session_name())
        self._scanner_id: str | None = None
        self._drained = False

    @property
    def scanner_id(self) -> str | None:
        """Return the session's id; None before `open()`, and for a scan that was done at once."""
        return self._scanner_id

    def open(self, resume_token: bytes | None = None) -> Page:
        """Open the session and return its first page; with a page's resume token the one after that page.

        The token says what is read, at which snapshot, and how much is left of a limit.

        Raises:
            InvalidScanRequestError: it was opened before.
            InvalidError: the token is no page's or of another bucket, or other columns, another filter or a lower
                limit are asked for.
            TooManyScannersError: the bucket or the server has no room for another session.
            PenstockError: as the node answered.
        """
        if self._scanner_id is not None or self._drained:
            raise InvalidScanRequestError("the scanner was opened before; make another", bucket=self._call.bucket)
        page = self._link.node.scan.open(self._call if resume_token is None else self._after(resume_token))
        self._scanner_id = page.scanner_id
        self._drained = page.scanner_id is None
        return page

    def _after(self, resume_token: bytes) -> OpenScan:
        if not isinstance(resume_token, bytes):
            raise InvalidError("a resume token is the bytes of a page", found=type(resume_token).__name__)
        asked, stored = self._call, self._link.node.scan.read_token(resume_token)
        if (stored.table_id, stored.bucket) != (asked.table_id, asked.bucket):
            raise InvalidError("the resume token is of another bucket", bucket=asked.bucket, found=stored.bucket)
        if asked.columns not in (None, stored.columns) or asked.filter not in (None, stored.filter):
            raise InvalidError(
                "the resume token is of a scan of other columns, or with another filter; leave them out",
                bucket=asked.bucket,
            )
        if asked.offsets and not stored.offsets:
            raise InvalidError("the resume token is of a scan without offsets; leave them out", bucket=asked.bucket)
        if asked.limit is not None and (stored.limit is None or stored.limit > asked.limit):
            raise InvalidError(
                "more rows are left to the resume token than the limit allows; leave the limit out",
                bucket=asked.bucket,
                limit=asked.limit,
                left=stored.limit,
            )
        page_bytes = stored.page_bytes if asked.page_bytes is None else asked.page_bytes
        return replace(stored, scanner_id=asked.scanner_id, page_bytes=page_bytes)

    def next(self, call_seq_id: int) -> Page:
        """Return the page of that call number.

        Raises:
            InvalidScanRequestError: it is no number, neither the next nor the latest, or there is no session.
            UnknownOrExpiredScannerError: the session is gone; go on with the last page's resume token.
            PenstockError: as the node answered.
        """
        if not isinstance(call_seq_id, int) or isinstance(call_seq_id, bool):
            raise InvalidScanRequestError(
                "next() takes a call number: 1, then 2, and so on", call_seq_id=repr(call_seq_id)
            )
        if self._scanner_id is None:
            why = _DONE if self._drained else "open the scanner first"
            raise InvalidScanRequestError(why, bucket=self._call.bucket, call_seq_id=call_seq_id)
        return self._link.node.scan.next_page(self._scanner_id, call_seq_id)

    def close(self) -> None:
        """End the session; idempotent."""
        if self._scanner_id is not None and not self._link.closed:
            self._link.node.scan.close(self._scanner_id)

    def __enter__(self) -> PageScanner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<PageScanner of {self._call.bucket}, session {self._scanner_id}>"
