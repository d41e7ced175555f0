"""Reading the log: pages of changes from several buckets, waiting for the first where there is none.

A pull keeps nothing but a pin where the reader stands, for one TTL. The bytes asked for are shared out
over the buckets that have changes; what one does not need goes to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from penstock.engine.changes.images import ChangeImages
from penstock.engine.changes.page import read_page
from penstock.engine.changes.reader_pins import ReaderPins
from penstock.engine.commit.committer import TableView
from penstock.engine.rows.known_columns import check_there, named
from penstock.engine.settings import PAGE_BYTES_MAX, Settings
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.pins import not_led
from penstock.errors import InvalidError, OffsetOutOfRangeError, SchemaMismatchError
from penstock.model.filter.filter import Filter
from penstock.model.node.calls import ChangePage, Images, Offsets, PullChanges
from penstock.model.node.log_state import dropped_unread
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.model.schema.projection import Projection
from penstock.runtime.clock import Clock
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.view import TabletView

WAIT_MS_MAX: Final = 60_000
SEARCH_MS_MAX: Final = 200
"""How long a pull looks for changes that pass a filter before it says how far it came."""

Positions = Mapping[BucketId, tuple[int, int | None]]
FindLeft = Callable[[OpenTable, TableBucket, int], BucketId | None]
"""Find the bucket of a dropped partition that had an offset; None if it can be read no more."""


class ChangeReader:
    """Reads changes for all log readers of a node. Thread-safe: its pins have a lock, and what it reads is a view."""

    def __init__(self, settings: Settings, clock: Clock, find_left: FindLeft | None = None) -> None:
        self._clock = clock
        self._find_dropped = find_left or _find_dropped
        self._pins = ReaderPins(settings, clock)

    def pull(
        self,
        table: OpenTable,
        call: PullChanges,
        held: Mapping[TableBucket, BucketId] | None = None,
        *,
        principal: str,
    ) -> list[ChangePage]:
        """Return pages of the buckets that have changes, waiting for the first; none if the wait ran out.

        `held` has the buckets of a reader who holds them, for their names may stand for others by now.

        Raises:
            InvalidError: a bucket, column, position or size is not what it may be.
            PartitionNotFoundError: a partition does not exist, or was dropped with changes that were not read.
            OffsetOutOfRangeError: a position is below the base or beyond the end.
            NotLeaderError: a bucket is not led here.
            SchemaMismatchError: a column that is read was dropped, or widened beyond the type that the reader knows.
            PenstockError: the table was dropped or closed meanwhile.
        """
        _check(call)
        schema = table.known_schema(call.schema_id)
        projection = Projection(schema, call.columns)
        chosen = Filter.from_bytes(call.filter or b"", schema)
        images = ChangeImages(schema, projection, chosen, before=call.images is Images.FULL)
        positions: dict[BucketId, tuple[int, int | None]] = {}
        for name, position in call.positions.items():
            bucket = self._find(table, name, position[0]) if held is None else held[name]
            if bucket is not None:
                positions[bucket] = position
        # Who holds them needs no other pin.
        if call.reader_id is not None and held is None:
            starts = {bucket: start for bucket, (start, _) in positions.items()}
            try:
                self._pins.stand(table, call.reader_id, starts, call.births, principal=principal)
            except OffsetOutOfRangeError as error:
                raise _below_base(error.facts["bucket"], error.facts["offset"], error.facts["base"]) from error
        finished = all(start == end for start, end in call.positions.values())
        pages = self._search(table, call, positions, images, 0 if finished else call.wait_ms)
        if call.schema_id != table.info.schema_id:
            check_there(table.info.schema, projection.columns + chosen.bound_columns)
        return pages

    def _search(
        self, table: OpenTable, call: PullChanges, positions: Positions, images: ChangeImages, wait_ms: int
    ) -> list[ChangePage]:
        """Return pages; where nothing passes the filter, wait on for what does, and say how far that is."""
        deadline_ms = self._clock.monotonic_ms() + min(wait_ms, WAIT_MS_MAX)
        stands = dict(positions)
        passed: dict[TableBucket, ChangePage] = {}
        while True:
            view = self._wait(table, stands, max(0, deadline_ms - self._clock.monotonic_ms()))
            pages = {page.bucket: page for page in self._pages(table, call, view, stands, images)}
            for name, before in passed.items():
                found = pages.get(name, before)
                pages[name] = replace(found, start=before.start)
            done = not pages or any(page.batch.num_rows or page.next_offset < page.end for page in pages.values())
            if done or self._clock.monotonic_ms() >= deadline_ms:
                return list(pages.values())
            passed = pages
            for bucket, (start, end) in stands.items():
                page = pages.get(table.name(bucket))
                stands[bucket] = (start if page is None else page.next_offset, end)
            if all(start == end for start, end in stands.values()):
                return list(pages.values())

    def _pages(
        self, table: OpenTable, call: PullChanges, view: TableView, positions: Positions, images: ChangeImages
    ) -> list[ChangePage]:
        ready = sorted((available, bucket) for bucket, available in _available(table, view, positions).items())
        late_ms = self._clock.monotonic_ms() + SEARCH_MS_MAX
        pages, room = [], call.max_bytes
        for place, (available, bucket) in enumerate(ready):
            start, one = positions[bucket][0], _view(table, view, bucket)
            try:
                page = read_page(
                    one,
                    table.name(bucket),
                    images,
                    start=start,
                    end=start + available,
                    room=room // (len(ready) - place),
                    is_late=lambda: self._clock.monotonic_ms() >= late_ms,
                )
            except SchemaMismatchError as error:
                raise named(error, table.known_schema(call.schema_id)) from error
            pages.append(page)
            room = max(0, room - page.batch.nbytes)
        return pages

    def offsets(self, table: OpenTable, timestamp_ms: int | None = None) -> dict[TableBucket, Offsets]:
        """Return base and end of every bucket; with a timestamp, base is the first change at or after it."""
        found = {}
        for bucket, view in table.view.items():
            name, base = table.find_name(bucket), view.base
            if name is None:
                continue  # its partition was dropped since
            if timestamp_ms is not None:
                first = view.directory(base, view.visible).first_offset_at(timestamp_ms)
                base = view.visible if first is None else max(base, first)
            found[name] = Offsets(base, view.visible)
        return found

    def reap(self) -> int:
        """Let go of what readers stood at that have not pulled for a TTL; return how many."""
        return self._pins.reap()

    def awaits(self, table_id: int, partition_id: int) -> bool:
        """Tell whether a reader follows a table who has not heard of a partition yet."""
        return self._pins.awaits(table_id, partition_id)

    def _find(self, table: OpenTable, name: TableBucket, start: int) -> BucketId | None:
        """Return the bucket that has an offset, also of a dropped partition; None if that ended there.

        Raises:
            InvalidError: the table has no such bucket.
            PartitionNotFoundError: the partition went with changes from the offset on, or never was.
        """
        found = table.find_id(name)
        if found is not None and start >= table.first_offset(found):
            return found
        dropped = self._find_dropped(table, name, start)
        if dropped is not None:
            view = table.view_of(dropped)
            return None if view is not None and start >= view.visible else dropped
        gone = table.gone_with(name, start)
        if gone is None or start < gone.ends[name.bucket]:
            raise dropped_unread(name, start, gone)
        return None

    def _wait(self, table: OpenTable, positions: Positions, wait_ms: int) -> TableView:
        """Return a view in which a bucket has changes, or the present one when the wait ran out."""
        committer = table.committer
        deadline_ms = self._clock.monotonic_ms() + min(wait_ms, WAIT_MS_MAX)
        while True:
            view = committer.view
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0 or _available(table, view, positions):
                return view
            with committer.published:
                if committer.view is not view:
                    continue
                if not committer.published.wait(left_ms / 1000):
                    return committer.view
                woken_for_nothing = committer.view is view
            if woken_for_nothing:
                # The committer wakes its readers without a new view when it closes, and then says why.
                committer.run(_nothing)


def _nothing() -> None:
    return None


def _find_dropped(table: OpenTable, name: TableBucket, offset: int) -> BucketId | None:
    found = table.dropped.find(name, offset)
    return None if found is None else found.bucket


def _check(call: PullChanges) -> None:
    if not 0 < call.max_bytes <= PAGE_BYTES_MAX:
        raise InvalidError("max_bytes is a number of bytes", max_bytes=call.max_bytes, max=PAGE_BYTES_MAX)
    if call.wait_ms < 0:
        raise InvalidError("wait_ms is not negative", wait_ms=call.wait_ms)
    for bucket, (start, end) in call.positions.items():
        if start < 0 or (end is not None and end < start):
            raise InvalidError(
                "a position is an offset and an end that is not below it", bucket=bucket, start=start, end=end
            )


def _available(table: OpenTable, view: TableView, positions: Positions) -> dict[BucketId, int]:
    """Return how many changes each bucket has, where it has some.

    Raises:
        OffsetOutOfRangeError: a position is below the base or beyond the end.
        NotLeaderError: a bucket is not led here.
    """
    found = {}
    for bucket, (start, end) in positions.items():
        tablet_view = _view(table, view, bucket)
        # Who stood there before a truncation may go on; no other reader can.
        if start < tablet_view.base and not _is_pinned(table.tablet(bucket), start):
            raise _below_base(table.name(bucket), start, tablet_view.base)
        if start > tablet_view.visible:
            raise OffsetOutOfRangeError(
                "offset is beyond the end of the log; start at the end",
                bucket=table.name(bucket),
                offset=start,
                end=tablet_view.visible,
            )
        stop = tablet_view.visible if end is None else min(end, tablet_view.visible)
        if start < stop:
            found[bucket] = stop - start
    return found


def _is_pinned(tablet: Tablet | None, offset: int) -> bool:
    """Tell whether what a bucket has from an offset on is held by a pin."""
    return tablet is not None and tablet.kept_from <= offset and tablet.pins.floor() <= offset


def _view(table: OpenTable, view: TableView, bucket: BucketId) -> TabletView:
    # One that left with its partition shows to who reads it what it showed then.
    found = view.get(bucket) or table.view_of(bucket)
    if found is None:
        raise not_led(bucket)
    return found


def _below_base(bucket: TableBucket, offset: int, base: int) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(
        "changes from this offset on are no longer kept; start at the base, or from a new scan",
        bucket=bucket,
        offset=offset,
        base=base,
    )
