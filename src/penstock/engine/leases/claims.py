"""The claims of an acquire: found, and pinned under a name of its own, before any lease is changed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from penstock.codec.stored.lease_record import Hold
from penstock.codec.stored.snapshot_file import SnapshotFile
from penstock.engine.catalog.catalog import Catalog
from penstock.engine.leases.snapshots import Snapshots
from penstock.engine.table.bucket_names import naming
from penstock.engine.table.lease_pins import LeasePins, pin, unpin
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.open_tables import OpenTables
from penstock.engine.table.pins import not_led
from penstock.errors import InvalidError, NotFoundError, NotLeaderError, OffsetOutOfRangeError, UnsupportedError
from penstock.model.node.lease import AcquireLease
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.runtime.clock import Clock
from penstock.tablet.settings import FsyncMode
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.pins import PinHolder, PinKind


@dataclass(slots=True)
class Claimed:
    """The claims that were found and are pinned under `holder`, and those that could not be had."""

    holder: PinHolder = field(default_factory=lambda: PinHolder(PinKind.ACQUIRING, uuid.uuid4().hex))
    holds: dict[BucketId, Hold] = field(default_factory=dict)
    unavailable: dict[TableBucket, str] = field(default_factory=dict)
    schemas: dict[int, int] = field(default_factory=dict)


class LeaseClaims:
    """Finds and pins what is to be leased. Thread-safe: keeps nothing of its own."""

    def __init__(
        self, tables: OpenTables, catalog: Catalog, lease_pins: LeasePins, snapshots: Snapshots, clock: Clock
    ) -> None:
        self._tables = tables
        self._catalog = catalog
        self._lease_pins = lease_pins
        self._snapshots = snapshots
        self._clock = clock

    def claim(self, call: AcquireLease) -> Claimed:
        """Pin what is asked for, as far as it can be had; the caller lets go with `release`.

        Raises:
            TableNotFoundError: a table whose newest snapshots, or whose cut, are wanted was dropped.
            UnsupportedError: it is a log table, which has no snapshots.
            PenstockError: a snapshot that had to be taken could not be.
        """
        claimed = Claimed()
        try:
            for table_id in call.latest:
                self._claim_latest(claimed, self._tables.get(table_id))
            for name, snapshot_id in call.snapshots.items():
                self._claim_named(claimed, name, snapshot_id)
            for cut in call.cuts:
                table = self._tables.get(cut.table_id)
                for name, offset in cut.offsets.items():
                    self._attempt(claimed, name, partial(self._claim_cut, claimed, table, name, offset))
        except BaseException:
            self.release(claimed)
            raise
        for table_id in {bucket.table_id for bucket in claimed.holds}:
            claimed.schemas[table_id] = self._catalog.table_by_id(table_id, dropped=True).schema_id
        return claimed

    def release(self, claimed: Claimed) -> None:
        """Let go of what was pinned; idempotent."""
        self._lease_pins.forget(claimed.holder, claimed.holds)
        for bucket, tablet in self.opened(claimed.holds):
            unpin(tablet, claimed.holder, claimed.holds[bucket])

    def opened(self, buckets: Iterable[BucketId]) -> Iterator[tuple[BucketId, Tablet]]:
        """Return those buckets that are open now, also of what was dropped since; none is opened for it.

        One that is opened later gets the pins that are noted by then.
        """
        tables: dict[int, OpenTable | None] = {}
        for bucket in buckets:
            if bucket.table_id not in tables:
                tables[bucket.table_id] = self._tables.opened(bucket.table_id)
            table = tables[bucket.table_id]
            tablet = None if table is None else table.tablet(bucket)
            if tablet is not None:
                yield bucket, tablet

    def tablet(self, bucket: BucketId) -> Tablet | None:
        """Return a bucket, opened if need be, also of what was dropped since; None if it is gone."""
        try:
            return self._tables.holding(bucket).tablet(bucket)
        except NotFoundError:
            return None

    def _claim_latest(self, claimed: Claimed, table: OpenTable) -> None:
        def claim(tablet: Tablet, newest: SnapshotFile) -> None:
            self._pin(claimed, tablet, _numbered(newest))

        refused = self._snapshots.latest(table, claim)
        for name in table.buckets():
            bucket = table.bucket_id(name)
            if bucket not in claimed.holds:
                led = bucket in table.committer.tablets
                claimed.unavailable[name] = str(refused if led and refused is not None else not_led(name))

    def _claim_named(self, claimed: Claimed, name: TableBucket, snapshot_id: int) -> None:
        def claim() -> None:
            table = self._tables.get(self._catalog.table(name.table).table_id)
            tablet = _open(table, name)
            with naming(table.name):
                found = tablet.snapshots.hold(snapshot_id, claimed.holder)
            self._pin(claimed, tablet, _numbered(found))

        self._attempt(claimed, name, claim)

    def _claim_cut(self, claimed: Claimed, table: OpenTable, name: TableBucket, offset: int) -> None:
        tablet = _open(table, name)
        if offset > tablet.view.visible:
            raise OffsetOutOfRangeError(
                "offset is beyond the end of the bucket", offset=offset, end=tablet.view.visible
            )
        if tablet.settings.fsync is not FsyncMode.ALWAYS and offset > tablet.bucket.first_offset(offset):
            # The record outlives a power loss, and so must what it names.
            tablet.exclusively(tablet.sync_log)
        while True:
            # The rows of a log table are all that it keeps below the offset.
            needed = offset if table.info.keyed else min(offset, tablet.pins.base)
            try:
                self._pin(claimed, tablet, Hold(0, offset, needed, self._clock.wall_ms()))
            except OffsetOutOfRangeError:
                if table.info.keyed or offset < tablet.pins.base:
                    raise
            else:
                return

    def _attempt(self, claimed: Claimed, name: TableBucket, claim: Callable[[], None]) -> None:
        try:
            claim()
        except (NotFoundError, NotLeaderError, InvalidError) as error:
            if isinstance(error, UnsupportedError):
                raise
            claimed.unavailable[name] = str(error)

    def _pin(self, claimed: Claimed, tablet: Tablet, hold: Hold) -> None:
        bucket = tablet.bucket
        before = claimed.holds.get(bucket)
        self._lease_pins.note(claimed.holder, {bucket: hold})
        claimed.holds[bucket] = hold
        try:
            # What was dropped before it was noted is gone; what is dropped from here on stays.
            if self._tables.get(bucket.table_id).committer.tablets.get(bucket) is not tablet:
                raise not_led(bucket)
            pin(tablet, claimed.holder, hold)
        except (NotFoundError, NotLeaderError):
            unpin(tablet, claimed.holder, hold)
            self._lease_pins.forget(claimed.holder, [bucket])
            del claimed.holds[bucket]
            raise
        if before is not None and before.snapshot_id not in (0, hold.snapshot_id):
            tablet.snapshots.release(before.snapshot_id, claimed.holder)


def _open(table: OpenTable, name: TableBucket) -> Tablet:
    tablet = table.tablet(table.bucket_id(name))
    if tablet is None:
        raise not_led(name)
    return tablet


def _numbered(found: SnapshotFile) -> Hold:
    return Hold(found.snapshot_id, found.offset, found.offset, found.created_ms, found.bytes)
