"""Snapshots and leases as a node offers them: in the names that users know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.codec.stored.lease_record import UNKNOWN, Hold
from penstock.codec.stored.snapshot_file import SnapshotFile
from penstock.engine.catalog.catalog import Catalog
from penstock.engine.leases.claims import LeaseClaims
from penstock.engine.leases.leases import Leases
from penstock.engine.leases.reclaim import Freeing
from penstock.engine.leases.snapshots import Snapshots
from penstock.engine.leases.store import Lease, LeaseBook
from penstock.engine.settings import Settings
from penstock.engine.table.lease_pins import Holds
from penstock.engine.table.open_table import LiveTable
from penstock.engine.table.open_tables import OpenTables
from penstock.engine.table.pins import not_led
from penstock.engine.upkeep.maintenance import FlushIndex, Maintenance
from penstock.errors import InvalidError
from penstock.model.node.calls import Offsets
from penstock.model.node.lease import AcquireLease, Leased, LeaseInfo, LeaseTime, Snapshot
from penstock.model.node.principal import current, may_change
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.model.place.change import NO_OFFSET
from penstock.runtime.clock import Clock
from penstock.runtime.metrics import Metrics
from penstock.tablet.snapshots.tablet_snapshots import snapshot_path
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.pins import PinHolder, PinKind

OBSERVE_INTERVAL_MS = 10_000


class LeaseDesk:
    """Answers calls about snapshots and leases. Thread-safe."""

    def __init__(
        self,
        loaded: Iterable[Lease],
        book: LeaseBook,
        holds: Holds,
        tables: OpenTables,
        *,
        catalog: Catalog,
        maintenance: Maintenance,
        settings: Settings,
        clock: Clock,
        metrics: Metrics,
        flush_index: FlushIndex,
        kick: Callable[[], None],
    ) -> None:
        snapshots = Snapshots(tables, settings, clock, maintenance, flush_index=flush_index)
        self._book = book
        self._holds = holds
        self._tables = tables
        self._catalog = catalog
        self._snapshots = snapshots
        self._clock = clock
        self.claims = LeaseClaims(tables, catalog, holds, snapshots, clock)
        self._freeing = Freeing(tables, snapshots, maintenance, kick)
        self._leases = Leases(loaded, book, holds, self.claims, settings=settings, clock=clock, freed=self._freeing.add)
        self._gauges = {
            name: metrics.gauge(f"penstock_{name}")
            for name in ("leases", "leased_buckets", "leased_snapshots", "leased_bytes", "lease_oldest_age_seconds")
        }
        self._observed_ms = clock.monotonic_ms() - OBSERVE_INTERVAL_MS

    def create_snapshot(self, table_id: int) -> list[Snapshot]:
        """Snapshot every bucket of a table at one cut; return the newest of each."""
        table = self._tables.get(table_id)
        taken = self._snapshots.create(table)
        # One without a name went with its partition meanwhile.
        named = ((table.find_name(bucket), bucket, found) for bucket, found in sorted(taken.items()))
        return [self._shown(name, table.tablet(bucket), found) for name, bucket, found in named if name is not None]

    def list_snapshots(self, table_id: int) -> list[Snapshot]:
        """Return the snapshots of a table, by bucket, oldest first."""
        table = self._tables.get(table_id)
        shown: list[Snapshot] = []
        for name in table.buckets():
            tablet = table.tablet(table.bucket_id(name))
            if tablet is not None:
                found = [self._shown(name, tablet, snapshot) for snapshot in tablet.snapshots.all()]
                shown += sorted([*found, *_damaged(name, tablet)], key=lambda snapshot: snapshot.id or 0)
        return shown

    def acquire(self, call: AcquireLease) -> LeaseInfo:
        """Take a lease, or more under one that is held."""
        lease, claimed = self._leases.acquire(call)
        return self._info(lease, claimed.unavailable)

    def renew(self, lease_id: str, duration_ms: int | None) -> LeaseTime:
        """Have a lease last that long from now on."""
        lease = self._leases.renew(lease_id, duration_ms)
        return LeaseTime(lease.duration_ms, self._book.expires_ms(lease))

    def release(self, lease_id: str, buckets: Sequence[TableBucket]) -> LeaseInfo:
        """Give some buckets back."""
        given = set(buckets)
        names = self._names(self._leases.get(lease_id).holds)
        chosen = [bucket for bucket, name in names.items() if name in given]
        return self._info(self._leases.release(lease_id, chosen))

    def drop(self, lease_id: str) -> None:
        """Give everything back."""
        self._leases.drop(lease_id)

    def get(self, lease_id: str) -> LeaseInfo:
        """Return a lease."""
        return self._info(self._leases.get(lease_id))

    def list(self) -> list[LeaseInfo]:
        """Return all leases."""
        return [self._info(lease) for lease in self._leases.all()]

    def find(
        self, lease_id: str, table_id: int, name: TableBucket, offset: int | None = None
    ) -> tuple[LiveTable, BucketId]:
        """Return a bucket that a lease holds, whatever became of its table; of several lives that of the offset.

        Raises:
            LeaseNotFoundError: the lease is unknown or has expired.
            PermissionDeniedError: it is somebody else's.
            InvalidError: it does not hold the bucket.
        """
        lease = self._leases.own(lease_id)
        partitions = {0: None} | self._catalog.partitions.names(table_id)
        # Of two partitions of one name, one of which is dropping, the younger has it.
        for partition_id in sorted((i for i, known in partitions.items() if known == name.partition), reverse=True):
            bucket = BucketId(table_id, partition_id, name.bucket)
            hold = lease.holds.get(bucket)
            if hold is not None and (offset is None or bucket.first_offset(offset) == bucket.first_offset(hold.offset)):
                return self._tables.holding(bucket), bucket
        raise InvalidError("the lease does not hold that bucket", lease_id=lease_id, bucket=name)

    def offsets(self, lease_id: str, table_id: int, timestamp_ms: int | None = None) -> dict[TableBucket, Offsets]:
        """Return base and leased offset of every bucket of a table that a lease holds, whatever became of it.

        With a timestamp, base is the first change at or after it.

        Raises:
            LeaseNotFoundError: the lease is unknown or has expired.
            PermissionDeniedError: it is somebody else's.
            InvalidError: it holds two partitions of one name.
        """
        found: dict[TableBucket, Offsets] = {}
        for bucket, hold in self._leases.own(lease_id).holds.items():
            if bucket.table_id != table_id:
                continue
            table = self._tables.holding(bucket)
            view, name = table.view_of(bucket), table.name(bucket)
            if view is None:
                raise not_led(name)
            if name in found:
                raise InvalidError(
                    "the lease holds two partitions of one name, one dropped since; scan either with as_of=, "
                    "and lease them apart to read their logs",
                    lease_id=lease_id,
                    bucket=name,
                    offsets=[found[name].end, hold.offset],
                )
            # A log may have been truncated since; the lease holds what it had.
            base = min(view.base, hold.pin)
            if timestamp_ms is not None:
                first = view.directory(base, hold.offset).first_offset_at(timestamp_ms)
                base = hold.offset if first is None else max(base, first)
            found[name] = Offsets(base, hold.offset)
        return found

    def kept_bytes(self, lease_id: str) -> int:
        """Return the size of the files that are kept only for a lease."""
        return self._bytes(self._leases.get(lease_id), self.claims.tablet)

    def owns(self, table_id: int) -> bool:
        """Tell whether whoever calls has a lease on a table that was dropped."""
        if table_id not in self._catalog.dropped():
            return False
        leases = (lease for lease in self._leases.all() if may_change(current(), lease.owner))
        return any(bucket.table_id == table_id for lease in leases for bucket in lease.holds)

    def run(self) -> None:
        """End what has expired, take the snapshots that are due, free what nobody holds; to be called often."""
        self._leases.expire()
        self._freeing.run()
        self._snapshots.run()
        self._observe()

    def _observe(self) -> None:
        """Set the gauges, now and then."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._observed_ms < OBSERVE_INTERVAL_MS:
            return
        self._observed_ms = now_ms
        leases = self._leases.all()
        pinned = {(b, hold.snapshot_id) for lease in leases for b, hold in lease.holds.items() if hold.snapshot_id}
        oldest_ms = min((lease.created_ms for lease in leases), default=None)
        self._gauges["leases"].set(len(leases))
        self._gauges["leased_buckets"].set(len({bucket for lease in leases for bucket in lease.holds}))
        self._gauges["leased_snapshots"].set(len(pinned))
        # Of what is open: to open the rest only to measure it would cost more than anything else here.
        measured = sum(self._bytes(lease, dict(self.claims.opened(lease.holds)).get) for lease in leases)
        self._gauges["leased_bytes"].set(measured)
        age_ms = 0 if oldest_ms is None else max(0, self._clock.wall_ms() - oldest_ms)
        self._gauges["lease_oldest_age_seconds"].set(age_ms / 1000)

    def _info(self, lease: Lease, unavailable: dict[TableBucket, str] | None = None) -> LeaseInfo:
        sharing = self._holds.sharing(lease.holds)
        return LeaseInfo(
            lease_id=lease.lease_id,
            owner=lease.owner,
            duration_ms=lease.duration_ms,
            expires_ms=self._book.expires_ms(lease),
            leased=[
                Leased(bucket.table_id, self._leased(bucket, name, lease.holds[bucket], sharing[bucket]), base)
                for bucket, name, base in (
                    (bucket, name, lease.holds[bucket].pin) for bucket, name in sorted(self._names(lease.holds).items())
                )
            ],
            unavailable=unavailable or {},
        )

    def _leased(self, bucket: BucketId, name: TableBucket, hold: Hold, holders: Sequence[PinHolder]) -> Snapshot:
        number = hold.snapshot_id or None
        path = None if number is None else snapshot_path(bucket, number)
        size = hold.bytes if hold.bytes != UNKNOWN else self._snapshot_bytes(bucket, hold.snapshot_id)
        return Snapshot(number, name, hold.offset, hold.created_ms, size, _lease_ids(holders), path)

    def _snapshot_bytes(self, bucket: BucketId, snapshot_id: int) -> int:
        tablet = self.claims.tablet(bucket) if snapshot_id else None
        found = () if tablet is None else tablet.snapshots.all()
        return sum(snapshot.bytes for snapshot in found if snapshot.snapshot_id == snapshot_id)

    def _shown(self, name: TableBucket, tablet: Tablet | None, found: SnapshotFile) -> Snapshot:
        return Snapshot(
            id=found.snapshot_id,
            bucket=name,
            offset=found.offset,
            created_ms=found.created_ms,
            bytes=found.bytes,
            leased_by=() if tablet is None else _lease_ids(tablet.snapshots.holders(found.snapshot_id)),
            path=None if tablet is None else tablet.snapshots.path(found.snapshot_id),
        )

    def _bytes(self, lease: Lease, find: Callable[[BucketId], Tablet | None]) -> int:
        total, dropped = 0, set(self._catalog.dropped())
        for bucket in lease.holds:
            tablet = find(bucket)
            if tablet is None:
                continue
            table = self._tables.opened(bucket.table_id)
            if table is not None and bucket.table_id not in dropped and table.left.tablet(bucket) is None:
                total += tablet.snapshots.kept_bytes(lease.holder, self._snapshots.retained(table))
            elif len(self._holds.of(bucket)) == 1:
                # All of it is there for this lease.
                total += tablet.files.size_bytes()
        return total

    def _names(self, buckets: Iterable[BucketId]) -> dict[BucketId, TableBucket]:
        """Return how users name buckets, also those of what was dropped since."""
        known = list(buckets)
        ids = {bucket.table_id for bucket in known}
        paths = {i: self._catalog.table_by_id(i, dropped=True).path for i in ids}
        partitions = {i: self._catalog.partitions.names(i) for i in ids}
        return {
            bucket: TableBucket(
                paths[bucket.table_id], partitions[bucket.table_id].get(bucket.partition_id), bucket.bucket
            )
            for bucket in known
        }


def _lease_ids(holders: Sequence[PinHolder]) -> tuple[str, ...]:
    return tuple(holder.id for holder in holders if holder.kind is PinKind.LEASE)


def _damaged(name: TableBucket, tablet: Tablet) -> Iterator[Snapshot]:
    """Yield the snapshots of a bucket that cannot be read: their files are all that is known of them."""
    for snapshot_id, error in tablet.snapshots.damaged().items():
        path = tablet.snapshots.path(snapshot_id)
        yield Snapshot(snapshot_id, name, NO_OFFSET, 0, tablet.files.disk.size(path), path=path, damaged=str(error))
