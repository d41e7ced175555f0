"""The scans and cuts of a table handle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.catalog.known_table import KnownTable
from penstock.client.cut.as_of import AsOfLike, resolve_as_of
from penstock.client.cut.cut import Cut
from penstock.client.cut.cut_pin import CutPin
from penstock.client.hold.lease_handle import LeaseHandle
from penstock.client.link.buckets import BucketName
from penstock.client.link.link import Link
from penstock.client.scan.builder import ScanBuilder
from penstock.client.scan.request import ScanSource, ScanSourceLike
from penstock.client.scan.scan import Scan
from penstock.errors import InvalidError, PenstockError
from penstock.model.table.table import TableInfo
from penstock.model.words.html_table import html_table

ROWS_SHOWN: Final = 5
CHARACTERS_SHOWN: Final = 80


class TableReads:
    """The part of a table handle that reads all rows of a table at one cut. Thread-safe."""

    _link: Link
    _info: TableInfo
    _known: KnownTable

    def new_scan(self) -> ScanBuilder:
        """Begin to say what to scan."""
        return ScanBuilder(self._link, self._known)

    def scan(
        self,
        columns: Iterable[str] | None = None,
        filter: str | pc.Expression | None = None,
        limit: int | None = None,
        as_of: AsOfLike | None = None,
        source: ScanSourceLike = ScanSource.LIVE_KV,
        *,
        buckets: Iterable[BucketName] | None = None,
        lease: LeaseHandle | str | None = None,
        offsets: bool = False,
        order_by: str | None = None,
    ) -> Scan:
        """Scan the table at one cut: the present one, or `as_of`. The live rows of a log table are its log.

        `as_of` is a cut, its JSON, or a moment: a datetime with its zone, or text such as "2026-11-18T10:00:00Z".
        With `order_by`, such as "amount desc, city", the scan gives the first `limit` rows in that order: nulls first
        where values ascend, and last where they descend, as in Spark.
        With `offsets` each row has the column `_offset`: the offset at which it began.

        Raises:
            InvalidError: the request is wrong.
            OffsetOutOfRangeError: `as_of` is older than what is kept, or not yet written.
            PartitionNotFoundError: `as_of` names a partition that is gone, or is a moment before it went.
            TableNotFoundError: the table was dropped.
        """
        builder = self.new_scan()
        if self._info.keyed or source != ScanSource.LIVE_KV:
            builder = builder.with_source(source)
        builder = builder if lease is None else builder.lease(lease)
        builder = builder.select(columns).filter(filter).limit(limit).buckets(buckets).as_of(as_of).offsets(offsets)
        return builder.order_by(order_by).execute()

    def count(self, filter: str | pc.Expression | None = None, as_of: AsOfLike | None = None) -> int:
        """Return how many rows there are at one cut, or pass a filter; none of them travels.

        Raises:
            InvalidError: the filter is not understood, or `as_of` is neither a cut of this table nor a moment.
            OffsetOutOfRangeError: `as_of` is older than what is kept, or not yet written.
            TableNotFoundError: the table was dropped.
        """
        return self.new_scan().filter(filter).as_of(as_of).count()

    def __len__(self) -> int:
        """Return how many rows there are, which is asked of the node."""
        return self.count()

    def __bool__(self) -> bool:
        """Return True: a handle is not nothing because its table is empty."""
        return True

    def head(self, n: int = 10) -> pa.Table:
        """Return a few rows, in no particular order.

        Raises:
            InvalidError: not a number of rows.
            TableNotFoundError: the table was dropped.
        """
        if n is None:
            raise InvalidError("a limit is a number of rows", limit=repr(n))
        with self.new_scan().limit(n).execute() as scan:
            return scan.to_arrow()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the present rows to any library that takes Arrow streams, each time it asks; `scan()` keeps one cut."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        return self._info._repr_html_() + self._preview()

    def _preview(self) -> str:
        try:
            rows = self.head(ROWS_SHOWN)
        except PenstockError as error:
            return html_table(f"no rows to show: {error}", (), ())
        shown = [[None if value is None else _short(value) for value in row.values()] for row in rows.to_pylist()]
        return html_table("some rows", rows.schema.names, shown)

    def cut(self, as_of: AsOfLike | None = None) -> Cut:
        """Return the present cut: one offset for each bucket, all of one moment; or that of a moment of the past.

        A lease can pin it.

        Raises:
            InvalidError: `as_of` is neither a moment that names its zone nor a cut of this table.
            OffsetOutOfRangeError: `as_of` is older than what is kept, or not yet written.
            PartitionNotFoundError: `as_of` names a partition that is gone, or is a moment before it went.
            TableNotFoundError: the table was dropped.
        """
        past = resolve_as_of(self._link, self._info, as_of)
        pin = CutPin.take(self._link, self._info.table_id, as_of=past.offsets, timestamp_ms=past.timestamp_ms)
        pin.release()
        return Cut(pin.offsets, database=self._link.database, table_id=self._info.table_id, births=pin.births)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= CHARACTERS_SHOWN else f"{text[: CHARACTERS_SHOWN - 1]}…"
