"""Cuts: one offset per bucket, all of one moment, pinned while a reader uses them.

A cut that was not used for a scanner's TTL is forgotten, and its pins with it. Opening a scanner
with the cut, and every page of one, touches it.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.engine.commit.committer import TableView
from penstock.engine.scan.past_cut import past_cut
from penstock.engine.settings import Settings
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.pins import not_led, pin, unpin
from penstock.errors import (
    InvalidError,
    OffsetOutOfRangeError,
    TooManyScannersError,
    UnknownOrExpiredScannerError,
)
from penstock.model.node.calls import Cut
from penstock.model.node.share import Share
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.runtime.clock import Clock
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.pins import PinHolder, PinKind

CUTS_MAX: Final = 10_000


@dataclass(slots=True)
class _OpenCut:
    table: OpenTable
    offsets: Mapping[BucketId, int]
    tablets: dict[BucketId, Tablet]
    ids: Mapping[TableBucket, BucketId]
    used_ms: int
    principal: str


class Cuts:
    """The open cuts of a node. Thread-safe by one lock."""

    def __init__(self, settings: Settings, clock: Clock, most: int = CUTS_MAX) -> None:
        self._most = most
        self._ttl_ms = settings.scanner_ttl_ms
        self._clock = clock
        self._lock = threading.Lock()
        self._cuts: dict[str, _OpenCut] = {}
        self._callers: Counter[str] = Counter()

    def open(
        self,
        table: OpenTable,
        as_of: Mapping[TableBucket, int] | None = None,
        buckets: Sequence[TableBucket] | None = None,
        *,
        timestamp_ms: int | None = None,
        principal: str,
    ) -> Cut:
        """Take and pin the present cut of some buckets (None: all), or pin the one given, for a principal.

        With a timestamp the cut is that of the moment.

        Raises:
            InvalidError: no such bucket, or `as_of` leaves one out, or the moment is in the future.
            PartitionNotFoundError: a partition does not exist (any more).
            OffsetOutOfRangeError: `as_of`, or the cut of the moment, is below a base or beyond an end.
            NotLeaderError: a bucket is not led here.
            TooManyScannersError: there are too many cuts, or too many of this caller.
        """
        self._check_room(principal)
        births = table.births_and_view()[0] if as_of is None and table.info.partitioned else None
        if timestamp_ms is not None:
            as_of, found_births = past_cut(table, timestamp_ms, buckets)
            births = found_births if table.info.partitioned else None
            buckets = tuple(as_of)
        if as_of is None:
            names = {table.bucket_id(bucket): bucket for bucket in (table.buckets() if buckets is None else buckets)}
        elif buckets is None:
            names = _all_of(table, as_of)
        else:
            names = {_find(table, bucket, as_of): bucket for bucket in buckets}
        cut_id, schema_id = uuid.uuid4().hex, table.info.schema_id
        holder = _holder(cut_id)
        offsets = _present(table, names, holder) if as_of is None else _given(table, names, as_of, holder)
        return self._keep(cut_id, table, _Moment(names, offsets, births, schema_id), principal)

    def open_together(self, tables: Sequence[OpenTable], *, principal: str) -> list[Cut]:
        """Take and pin one cut of several tables, all of one moment: no table shows what came after another's offsets.

        Raises:
            NotLeaderError: a bucket is not led here.
            TooManyScannersError: there are too many cuts, or too many of this caller.
        """
        for _ in tables:
            self._check_room(principal)
        cut_ids = [uuid.uuid4().hex for _ in tables]
        moments = _pinned_together(tables, [_holder(cut_id) for cut_id in cut_ids])
        return [
            self._keep(cut_id, table, moment, principal)
            for cut_id, table, moment in zip(cut_ids, tables, moments, strict=True)
        ]

    def _check_room(self, principal: str) -> None:
        share = Share(principal, self._most)
        with self._lock:
            if not share.fits(self._callers[principal]):
                raise share.refusal(TooManyScannersError, "the open cuts", "release some, or wait until they expire")
            if len(self._cuts) >= self._most:
                raise TooManyScannersError(
                    "too many cuts are open; release some, or wait until they expire", max=self._most
                )

    def _keep(self, cut_id: str, table: OpenTable, moment: _Moment, principal: str) -> Cut:
        names, offsets = moment.names, moment.offsets
        tablets = {bucket: tablet for bucket in offsets if (tablet := table.committer.tablets.get(bucket)) is not None}
        with self._lock:
            ids = {name: bucket for bucket, name in names.items()}
            self._cuts[cut_id] = _OpenCut(table, offsets, tablets, ids, self._clock.monotonic_ms(), principal)
            self._callers[principal] += 1
        return Cut(cut_id, {names[bucket]: at for bucket, at in offsets.items()}, moment.births, moment.schema_id)

    def find(self, cut_id: str, name: TableBucket) -> BucketId | None:
        """Return the bucket that a name stood for when the cut was opened; None if the cut does not know it."""
        with self._lock:
            cut = self._cuts.get(cut_id)
            return None if cut is None else cut.ids.get(name)

    def touch(self, cut_id: str) -> None:
        """Keep a cut for another TTL.

        Raises:
            UnknownOrExpiredScannerError: it was released, has expired, or never was.
        """
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            cut = self._cuts.get(cut_id)
            if cut is not None and not self._expired(cut, now_ms) and self._is_pinned(cut_id, cut):
                cut.used_ms = now_ms
                return
        self.release(cut_id)
        raise UnknownOrExpiredScannerError("the cut is unknown or has expired; open it again", cut_id=cut_id)

    def release(self, cut_id: str) -> None:
        """Unpin a cut; idempotent."""
        with self._lock:
            cut = self._cuts.pop(cut_id, None)
            if cut is not None:
                self._callers[cut.principal] -= 1
        if cut is not None:
            unpin(cut.table, _holder(cut_id), cut.offsets)

    def reap(self) -> int:
        """Release the cuts that have expired; return how many."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            expired = [cut_id for cut_id, cut in self._cuts.items() if self._expired(cut, now_ms)]
        for cut_id in expired:
            self.release(cut_id)
        return len(expired)

    def _is_pinned(self, cut_id: str, cut: _OpenCut) -> bool:
        """Tell whether the cut is pinned; a bucket that was given up and taken up again is pinned again."""
        tablets = cut.table.committer.tablets
        moved = {b: tablets[b] for b, tablet in cut.tablets.items() if b in tablets and tablets[b] is not tablet}
        if moved:
            try:
                pin(cut.table, _holder(cut_id), {bucket: cut.offsets[bucket] for bucket in moved})
            except OffsetOutOfRangeError:
                return False
            cut.tablets |= moved
        return True

    def _expired(self, cut: _OpenCut, now_ms: int) -> bool:
        return now_ms - cut.used_ms > self._ttl_ms


def _holder(cut_id: str) -> PinHolder:
    return PinHolder(PinKind.CUT, cut_id)


def _present(table: OpenTable, buckets: Mapping[BucketId, TableBucket], holder: PinHolder) -> dict[BucketId, int]:
    """Pin what one view shows; return it."""
    while True:
        view = table.view
        missing = [name for bucket, name in buckets.items() if bucket not in view]
        if missing:
            raise not_led(missing[0])
        offsets = {bucket: view[bucket].visible for bucket in buckets}
        try:
            pin(table, holder, offsets)
        except OffsetOutOfRangeError:
            # Compaction passed between view and pin; the next view is beyond it.
            continue
        return offsets


class _Moment(NamedTuple):
    """A table at the moment of a cut: how its buckets are named, where they stand, the id of the next partition."""

    names: Mapping[BucketId, TableBucket]
    offsets: Mapping[BucketId, int]
    births: int | None
    schema_id: int


def _pinned_together(tables: Sequence[OpenTable], holders: Sequence[PinHolder]) -> list[_Moment]:
    """Pin the present of several tables, each for a holder of its own."""
    while True:
        births = [table.births() if table.info.partitioned else None for table in tables]
        schemas = [table.info.schema_id for table in tables]
        views = _views_together(tables)
        found = [_moment(*of) for of in zip(tables, views, births, schemas, strict=True)]
        if None in found:
            # A partition was dropped right after; the next views are without it.
            continue
        moments = [moment for moment in found if moment is not None]
        pinned: list[tuple[OpenTable, PinHolder, _Moment]] = []
        try:
            for table, holder, moment in zip(tables, holders, moments, strict=True):
                pin(table, holder, moment.offsets)
                pinned.append((table, holder, moment))
        except BaseException as error:
            for table, holder, moment in pinned:
                unpin(table, holder, moment.offsets)
            if isinstance(error, OffsetOutOfRangeError):
                # Compaction passed between view and pin; the next views are beyond it.
                continue
            raise
        return moments


def _views_together(tables: Sequence[OpenTable]) -> list[TableView]:
    """Return views of one moment: while it looks, no table publishes, so nothing is acknowledged in between."""
    with ExitStack() as stack:
        # In the order of ids, in every thread; no other code holds two of these locks.
        for table in sorted(tables, key=lambda table: table.info.table_id):
            stack.enter_context(table.committer.published)
        return [table.view for table in tables]


def _moment(table: OpenTable, view: TableView, births: int | None, schema_id: int) -> _Moment | None:
    """Return a table as a view has it; None if the view shows a partition that is dropped by now.

    Raises:
        NotLeaderError: a bucket is not led here.
    """
    names = {bucket: name for bucket in view if (name := table.find_name(bucket)) is not None}
    for name in table.buckets():
        bucket = table.find_id(name)
        if bucket is not None and bucket not in view and (births is None or bucket.partition_id < births):
            raise not_led(name)
    if len(names) < len(view):
        return None
    return _Moment(names, {bucket: view[bucket].visible for bucket in names}, births, schema_id)


def _all_of(table: OpenTable, as_of: Mapping[TableBucket, int]) -> dict[BucketId, TableBucket]:
    """Return the buckets of a cut of the whole table; a partition that it does not name was born after it.

    Raises:
        InvalidError: it leaves out a bucket that was there.
        PartitionNotFoundError: a partition does not exist (any more).
    """
    names = {table.bucket_id(name): name for name in as_of}
    # A partition that was made again is younger than the cut, which names the one before it: that it is gone is told
    # by its offset. It says nothing of what was there.
    view = table.view
    named = {
        bucket.partition_id
        for bucket, name in names.items()
        if bucket not in view or as_of[name] >= bucket.first_offset(view[bucket].visible)
    }
    for name in table.buckets():
        bucket = table.find_id(name)
        # Ids are given in order: what is older than a partition of the cut was there when it was taken.
        if name not in as_of and bucket is not None and (bucket.partition_id in named or _is_older(bucket, named)):
            raise _left_out(name)
    return names


def _is_older(bucket: BucketId, named: Collection[int]) -> bool:
    return bucket.partition_id == 0 or bucket.partition_id < max(named, default=0)


def _find(table: OpenTable, name: TableBucket, as_of: Mapping[TableBucket, int]) -> BucketId:
    if name not in as_of:
        raise _left_out(name)
    return table.bucket_id(name)


def _left_out(name: TableBucket) -> InvalidError:
    return InvalidError(
        "as_of names every bucket that was there; add it, or say by buckets= which ones to read", bucket=name
    )


def _given(
    table: OpenTable, buckets: Mapping[BucketId, TableBucket], as_of: Mapping[TableBucket, int], holder: PinHolder
) -> dict[BucketId, int]:
    """Pin the offsets given, once each is known to be readable."""
    offsets = {bucket: as_of[name] for bucket, name in buckets.items()}
    view = table.view
    for bucket, offset in offsets.items():
        if bucket in view and offset > view[bucket].visible:
            raise OffsetOutOfRangeError(
                "offset is beyond the end of the bucket",
                bucket=buckets[bucket],
                offset=offset,
                end=view[bucket].visible,
            )
    pin(table, holder, offsets)
    return offsets
