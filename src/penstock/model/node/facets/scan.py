"""Cuts of the tables of a node, and scan sessions at them."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Protocol

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


class ScanFacet(Protocol):
    """Cuts of the tables of a node, and scan sessions at them. Thread-safe."""

    def open_cut(
        self,
        table_id: int,
        *,
        as_of: Mapping[TableBucket, int] | None = None,
        buckets: Sequence[TableBucket] | None = None,
    ) -> Cut:
        """Take and pin the present cut, or pin the one given."""

    def open_cut_at(self, table_id: int, timestamp_ms: int, *, buckets: Sequence[TableBucket] | None = None) -> Cut:
        """Pin the cut of a moment of the past: in each bucket, the first offset with a later timestamp."""

    def open_cuts(self, table_ids: Sequence[int]) -> list[Cut]:
        """Take and pin one cut of several tables, all of one moment."""

    def release_cut(self, cut_id: str) -> None:
        """Unpin a cut; idempotent."""

    def named_cut(self, table_id: int, name: str, ttl_ms: int) -> Cut:
        """Return the cut of that name, which the first to ask fixes; kept for `ttl_ms` after the last to ask."""

    def count(self, call: RowPass) -> RowCount:
        """Count rows, for a second or two: what is left then is asked for again."""

    def first(self, call: RowPass) -> FirstRows:
        """Return the first rows in an order, looking for a second or two: what is left then is asked for again."""

    def open(self, call: OpenScan) -> Page:
        """Open a scan session and return its first page (call 0)."""

    def open_some(self, calls: Sequence[OpenScan]) -> list[Page]:
        """Open scan sessions one after the other and return their first pages: of the first call, or of more.

        It ends with the first page that has more, so all but that one are done.
        """

    def next_page(self, scanner_id: str, call_seq_id: int) -> Page:
        """Return the page of that call number: the next one, or the latest again."""

    def pages(self, scanner_id: str, call_seq_id: int) -> Generator[Page, None, None]:
        """Yield the pages from that call number on, for a reader that takes them at once.

        A node far away may be asked for a page before the one before it has arrived; should that one be
        lost, it cannot be had again by its number.
        """

    def close(self, scanner_id: str) -> None:
        """End a scan session; idempotent."""

    def read_token(self, token: bytes) -> OpenScan:
        """Return the call that goes on where the page with that resume token ended."""

    def list(self) -> list[ScannerInfo]:
        """Return the open scan sessions."""

    def kill(self, scanner_id: str) -> None:
        """End a scan session of any principal."""
