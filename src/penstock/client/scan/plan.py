"""What every pass of a scan reads, and how: a class for each source, chosen once, when the scan is opened.

    source    its cut                                     begins at                     is read by
    --------  ------------------------------------------  ----------------------------  ----------
    live      the one asked for, or the present           offset 0                      RowReader
    snapshot  the one asked for, or the newest snapshots  offset 0                      RowReader
    log       the one asked for, or the present           the oldest change still kept  LogReader

Under a lease each of them reads the cut that the lease holds; a scan that goes on by token, the cut of its token.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from penstock.client.catalog.known_table import ColumnsChangedError, check_present
from penstock.client.cut.cut_pin import CutPin, LeasePin
from penstock.client.link.buckets import require_every
from penstock.client.link.link import Link
from penstock.client.link.retry import worth_retrying
from penstock.client.pages.bucket_scan import close_session, session_name
from penstock.client.scan.lease_cut import pin_leased
from penstock.client.scan.log_scan import LogReader
from penstock.client.scan.request import ScanRequest, ScanSource
from penstock.client.scan.row_pass import OrderedReader, RowPasses
from penstock.client.scan.row_reader import RowReader
from penstock.client.scan.token import BucketPosition
from penstock.errors import InvalidError, OffsetOutOfRangeError, TooManyScannersError, UnsupportedError
from penstock.model.node.calls import Cut, OpenScan, Page
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.row_order import RowOrder
from penstock.model.table.table import TableInfo

TRIES: Final = 3


class ScanPlan:
    """A request, the pin of its cut, and the position at which each bucket begins. Rows are read in sessions.

    `first` holds the first page, if it came with the cut, until a pass takes it. A pass may outlive its scan by the
    page that its thread waits for, so a plan does not refer to the scan.
    """

    def __init__(
        self, link: Link, info: TableInfo, request: ScanRequest, stored: tuple[BucketPosition, ...] | None = None
    ) -> None:
        """Pin the cut that is asked for, or that of `stored` positions.

        Raises:
            ColumnsChangedError: the table has other columns by now.
            PenstockError: as `Scan.begin` and `Scan.resume` have it.
        """
        self.link = link
        self.info = info
        self.request = request
        self.schema = request.schema(info)
        self.order = None if request.order_by is None else _ordered(info, request)
        self.first: list[Page] = []
        self.pin = self._pin_present() if stored is None else self._pin_again(stored)
        self.positions = self._positions() if stored is None else stored

    def reader(self, *, hurried: bool) -> RowReader | LogReader | OrderedReader:
        """Return what reads the buckets for one pass. It takes the first page, so it has to be closed."""
        where = (self.link, self.info, self.request, self.positions)
        if self.order is not None:
            return OrderedReader(self.passes(), self.order)
        return RowReader(*where, pin=self.pin, first=self._take_first(), hurried=hurried)

    def passes(self) -> RowPasses:
        """Return what has the node go over the rows."""
        return RowPasses(self.link, self.info, self.request, self.positions, pin=self.pin)

    def release(self) -> None:
        """Let go of the cut, and of the first page if no pass took it; idempotent."""
        first = self._take_first()
        if first is not None and first.has_more:
            close_session(self.link, first.scanner_id)
        self.pin.release()

    def _take_first(self) -> Page | None:
        # In one step: of two threads one gets the page.
        try:
            return self.first.pop()
        except IndexError:
            return None

    def _pin_present(self) -> CutPin | LeasePin:
        """Pin the cut, while the table has the columns that it is read by."""
        pin = self._pin()
        if isinstance(pin, CutPin):
            try:
                check_present(self.info, pin.schema_id)
            except ColumnsChangedError:
                self.pin = pin
                self.release()
                raise
        return pin

    def _pin(self) -> CutPin | LeasePin:
        if self.request.lease_id is not None:
            return pin_leased(self.link, self.info, self.request.lease_id, self.request)
        if self.request.as_of is not None:
            return self._pin_as_of(self.request.as_of)
        moment = self.request.timestamp_ms
        if moment is None:
            return self._pin_now()
        return CutPin.take(self.link, self.info.table_id, timestamp_ms=moment, buckets=self.request.buckets)

    def _pin_as_of(self, as_of: Mapping[TableBucket, int]) -> CutPin:
        chosen = self.request.buckets
        if chosen is not None:
            require_every(self.info, as_of, chosen)
            as_of = {bucket: as_of[bucket] for bucket in chosen}
        return CutPin.take(self.link, self.info.table_id, as_of=as_of, buckets=chosen)

    def _pin_again(self, stored: tuple[BucketPosition, ...]) -> CutPin | LeasePin:
        link, info, lease_id = self.link, self.info, self.request.lease_id
        unread = {p.table_bucket(info.path): p.log_offset for p in stored if p.next_offset is not None}
        if lease_id is not None:
            return LeasePin(link, info.table_id, lease_id, unread)
        return CutPin.take(link, info.table_id, as_of=unread, buckets=tuple(unread))

    def _positions(self) -> tuple[BucketPosition, ...]:
        offsets, starts = self.pin.offsets, self._starts()
        return tuple(
            BucketPosition(bucket.partition, bucket.bucket, offsets[bucket], starts.get(bucket, 0))
            for bucket in self.request.buckets or sorted(offsets)
        )

    def _pin_now(self) -> CutPin:
        """Pin the cut of a scan that asks for none."""
        return CutPin.take(self.link, self.info.table_id, buckets=self.request.buckets)

    def _starts(self) -> Mapping[TableBucket, int]:
        """Return the offset at which each bucket begins; a bucket that is not in it begins at 0."""
        return {}


def _ordered(info: TableInfo, request: ScanRequest) -> RowOrder:
    """Return the order that is asked for.

    Raises:
        InvalidError: it is not understood, or has no limit.
        UnsupportedError: the scan reads the log, or a column has no order.
    """
    assert request.order_by is not None
    order = RowOrder.parse(request.order_by, info.schema)
    if request.source is ScanSource.LOG:
        raise UnsupportedError("a log is in the order of its offsets; read it, and sort the rows", table=info.path)
    if request.limit is None:
        raise InvalidError(
            "order_by takes a limit: the node finds the first rows and does not sort a table; sort those of a scan",
            order_by=request.order_by,
        )
    return order


class LivePlan(ScanPlan):
    """Reads rows as they are.

    A session takes its own snapshot when none is named, so one bucket needs no cut to begin with: a small table is
    read whole in a single round trip. If there is more than a page, the node pins the snapshot as a cut in the same
    call, so that the scan outlives its session.
    """

    def _pin_now(self) -> CutPin:
        bucket = self._only_bucket() if self.link.distant else None
        first = None if bucket is None else self._open_first(bucket)
        if bucket is None or first is None:
            return super()._pin_now()
        self.first.append(first)
        cut = Cut(first.cut_id or "", {bucket: first.log_offset}, schema_id=first.schema_id or self.info.schema_id)
        return CutPin(self.link, self.info.table_id, cut)

    def _only_bucket(self) -> TableBucket | None:
        info, request = self.info, self.request
        if info.partitioned or request.limit == 0 or request.counts or request.order_by is not None:
            return None
        if request.buckets is not None:
            return request.buckets[0] if len(request.buckets) == 1 else None
        return TableBucket(info.path, None, 0) if info.buckets == 1 else None

    def _open_first(self, bucket: TableBucket) -> Page | None:
        link, info, request = self.link, self.info, self.request
        call = OpenScan(
            table_id=info.table_id,
            schema_id=info.schema_id,
            bucket=bucket,
            columns=request.columns,
            filter=request.filter,
            limit=request.limit,
            pin=True,
            scanner_id=session_name(),
            offsets=request.offsets,
        )
        try:
            return link.retry.run(
                lambda: link.node.scan.open(call),
                when=lambda error: worth_retrying(error) and not isinstance(error, TooManyScannersError),
            )
        except TooManyScannersError:
            # A cut takes no session: it fixes the snapshot now, and the first read waits for room.
            return None


class SnapshotPlan(ScanPlan):
    """Reads rows as the newest snapshots have them; where there is none they are taken first."""

    def _pin_now(self) -> CutPin:
        for _ in range(TRIES - 1):
            # A snapshot may be replaced by a newer one before it is pinned.
            with suppress(OffsetOutOfRangeError):
                return self._pin_newest()
        return self._pin_newest()

    def _pin_newest(self) -> CutPin:
        link, table_id = self.link, self.info.table_id
        found = link.retry.run(lambda: link.node.leases.list_snapshots(table_id))
        wanted = self.request.buckets or link.retry.run(lambda: link.node.catalog.buckets(table_id))
        # Oldest first: the newest of each bucket is what stays.
        last = {snapshot.bucket: snapshot for snapshot in found}
        if any(bucket not in last or last[bucket].damaged for bucket in wanted):
            taken = link.retry.run(lambda: link.node.leases.create_snapshot(table_id))
            last = {snapshot.bucket: snapshot for snapshot in taken}
        as_of = {bucket: last[bucket].offset for bucket in wanted}
        return CutPin.take(link, table_id, as_of=as_of, buckets=tuple(wanted))


class LogPlan(ScanPlan):
    """Reads changes."""

    def reader(self, *, hurried: bool) -> LogReader:
        """Return what reads the buckets for one pass."""
        return LogReader(self.link, self.info, self.request, self.positions)

    def _starts(self) -> Mapping[TableBucket, int]:
        return self.pin.log_starts()


PLANS: Final[Mapping[ScanSource, type[ScanPlan]]] = {
    ScanSource.LIVE_KV: LivePlan,
    ScanSource.SNAPSHOT: SnapshotPlan,
    ScanSource.LOG: LogPlan,
}
