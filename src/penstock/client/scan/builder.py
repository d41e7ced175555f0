"""What a scan reads, said step by step; each step is checked when it is said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow.compute as pc

from penstock.client.catalog.known_table import KnownTable
from penstock.client.cut.as_of import AsOfLike, resolve_as_of
from penstock.client.hold.lease_handle import LeaseHandle
from penstock.client.link.buckets import BucketName, resolve_buckets
from penstock.client.link.link import Link
from penstock.client.scan.lease_cut import leased_info
from penstock.client.scan.request import ScanRequest, ScanSource, ScanSourceLike, check_limit, project
from penstock.client.scan.scan import Scan
from penstock.errors import InvalidError, UnsupportedError
from penstock.model.filter.filter import Filter
from penstock.model.table.table import TableInfo
from penstock.model.words.names import name_list


class ScanBuilder:
    """Collects what a scan reads. Immutable: each step returns a new builder.

    Names are those of the table's present columns, or of the columns that a lease began with. Where they turn out to be
    others than the handle knew, what was said is read again.
    """

    def __init__(
        self,
        link: Link,
        known: KnownTable,
        request: ScanRequest | None = None,
        *,
        info: TableInfo | None = None,
        names: tuple[str, ...] | None = None,
        filters: tuple[str | pc.Expression, ...] = (),
    ) -> None:
        self._link = link
        self._known = known
        self._info = info or known.latest
        self._request = request or ScanRequest.default(self._info)
        self._names = names
        self._filters = filters

    def with_source(self, source: ScanSourceLike) -> ScanBuilder:
        """Read the live rows (the default), a snapshot, or the log (the default for log tables).

        Raises:
            InvalidError: no such source.
            UnsupportedError: this table or node does not offer it.
        """
        chosen = ScanSource.parse(source)
        if chosen is ScanSource.SNAPSHOT and not self._info.keyed:
            raise UnsupportedError("a log table has no snapshots; lease its cut", table=self._info.path)
        if chosen is ScanSource.LIVE_KV and not self._info.keyed:
            raise UnsupportedError("a log table has no live rows; scan its log", table=self._info.path)
        return self._with(replace(self._request, source=chosen))

    def select(self, columns: Iterable[str] | None) -> ScanBuilder:
        """Read only these columns, in this order.

        Raises:
            InvalidError: a column is unknown or named twice.
        """
        return self._said(None if columns is None else tuple(name_list(columns)), self._filters)

    def filter(self, filter: str | pc.Expression | None) -> ScanBuilder:
        """Read only rows for which the filter is true, and those before it, too; None takes them all away.

        Raises:
            InvalidError: the filter is not understood.
            LimitError: together they are too long.
        """
        return self._said(self._names, () if filter is None else (*self._filters, filter))

    def limit(self, rows: int | None) -> ScanBuilder:
        """Read at most so many rows, over all buckets.

        Raises:
            InvalidError: not a number of rows.
        """
        return self._with(replace(self._request, limit=check_limit(rows)))

    def buckets(self, buckets: Iterable[BucketName] | None) -> ScanBuilder:
        """Read only these buckets.

        Raises:
            InvalidError: one is no bucket of this table.
        """
        chosen = None if buckets is None else resolve_buckets(self._info, buckets)
        return self._with(replace(self._request, buckets=chosen))

    def as_of(self, past: AsOfLike | None) -> ScanBuilder:
        """Read the table as it was at a cut, which is an offset of each bucket, or at a moment.

        Raises:
            InvalidError: neither a cut of this table nor a moment that names its zone.
        """
        chosen = resolve_as_of(self._link, self._info, past)
        return self._with(replace(self._request, as_of=chosen.offsets, timestamp_ms=chosen.timestamp_ms))

    def offsets(self, wanted: bool = True) -> ScanBuilder:
        """Read with each row, as `_offset`, the offset at which it began.

        Raises:
            InvalidError: neither true nor false.
        """
        if not isinstance(wanted, bool):
            raise InvalidError("offsets is True or False", found=repr(wanted))
        return self._with(replace(self._request, offsets=wanted))

    def order_by(self, order: str | None) -> ScanBuilder:
        """Read the first rows in an order, such as `amount desc, city`: as many as the limit, which it needs.

        Raises:
            InvalidError: not a text.
        """
        if not isinstance(order, str | None):
            raise InvalidError('order_by is a text such as "amount desc, city"', found=type(order).__name__)
        return self._with(replace(self._request, order_by=order))

    def count(self) -> int:
        """Return how many rows there are; none of them travels. A limit does not count.

        Raises:
            PenstockError: as `execute` has it.
        """
        with self._with(replace(self._request, counts=True, order_by=None)).execute() as scan:
            return scan.count()

    def lease(self, lease: LeaseHandle | str | None) -> ScanBuilder:
        """Read what a lease, named by itself or its id, holds of the table; None for no lease.

        Raises:
            InvalidError: not a lease.
        """
        if not isinstance(lease, LeaseHandle | str | None):
            raise InvalidError("name a lease, or its id", found=type(lease).__name__)
        if isinstance(lease, LeaseHandle):
            lease.check_of(self._link)
        return self._with(replace(self._request, lease_id=lease.id if isinstance(lease, LeaseHandle) else lease))

    def execute(self) -> Scan:
        """Take the cut and begin.

        Raises:
            InvalidError: `as_of` leaves a bucket out, or the lease does not hold one.
            OffsetOutOfRangeError: `as_of` is older than what is kept, or not yet written.
            TableNotFoundError: the table was dropped, and no lease is named.
            LeaseNotFoundError: the lease is unknown or has expired.
        """
        lease_id = self._request.lease_id
        if lease_id is not None:
            leased = self._read_by(leased_info(self._link, self._known.own, lease_id))
            return Scan.begin(self._link, leased._info, leased._request)

        def attempt(info: TableInfo) -> Scan:
            builder = self if info.schema_id == self._info.schema_id else self._read_by(info)
            return Scan.begin(self._link, builder._info, builder._request)

        return self._known.read(attempt)

    def __repr__(self) -> str:
        return f"<ScanBuilder of {self._info.path}, source {self._request.source}>"

    def _with(self, request: ScanRequest) -> ScanBuilder:
        made = (self._link, self._known, request)
        return ScanBuilder(*made, info=self._info, names=self._names, filters=self._filters)

    def _said(self, names: tuple[str, ...] | None, filters: tuple[str | pc.Expression, ...]) -> ScanBuilder:
        """Return a builder of these columns and filters, checked against the columns that the table has now."""
        if (names, filters) == (None, ()) == (self._names, self._filters):
            return self
        made = ScanBuilder(self._link, self._known, self._request, info=self._info, names=names, filters=filters)
        # What a lease began with is looked at when the scan begins.
        return made if self._request.lease_id is not None else self._known.read(made._read_by)

    def _read_by(self, info: TableInfo) -> ScanBuilder:
        """Return the builder of what was said, read by the columns of a table."""
        compiled = None
        for each in self._filters:
            one = Filter(each, info.schema)
            compiled = one if compiled is None else compiled.also(one)
        request = replace(
            self._request,
            columns=project(self._names, info.schema),
            filter=None if compiled is None else compiled.to_bytes(),
        )
        return ScanBuilder(self._link, self._known, request, info=info, names=self._names, filters=self._filters)
