"""Snapshots and leases as a node offers them: in the names that users know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.codec.stored.lease_record import UNKNOWN, Hold
from penstock.codec.stored.snapshot_file import SnapshotFile
from penstock.engine.catalog.catalog import Catalog
from penstock.engine.leases.claims import LeaseClaims
from penstock.engine.leases.lease_bytes import LeaseBytes
from penstock.engine.leases.leases import Leases
from penstock.engine.leases.snapshots import Snapshots
from penstock.engine.leases.store import Lease, LeaseStore
from penstock.engine.table.lease_pins import LeasePins
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.open_tables import OpenTables
from penstock.model.node.lease import AcquireLease, Leased, LeaseInfo, LeaseTime, Snapshot
from penstock.model.node.principal import ActsForPrincipal
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.model.place.change import NO_OFFSET
from penstock.tablet.snapshots.tablet_snapshots import snapshot_path
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.pins import PinHolder, PinKind


class SnapshotLister:
    """Lists the snapshots of tables. Thread-safe: keeps nothing of its own."""

    def __init__(self, tables: Callable[[int], OpenTable]) -> None:
        self._tables = tables

    def list_snapshots(self, table_id: int) -> list[Snapshot]:
        """Return the snapshots of a table, by bucket, oldest first."""
        table = self._tables(table_id)
        shown: list[Snapshot] = []
        for name in table.buckets():
            tablet = table.tablet(table.bucket_id(name))
            if tablet is not None:
                found = [_shown(name, tablet, snapshot) for snapshot in tablet.snapshots.all()]
                shown += sorted([*found, *_damaged(name, tablet)], key=lambda snapshot: snapshot.id or 0)
        return shown


class LeaseService(ActsForPrincipal):
    """Answers calls about snapshots and leases; implements `penstock.model.node.facets.leases.LeasesFacet`.

    Thread-safe by the lock of `Leases`; holds nothing else that changes.
    """

    def __init__(
        self,
        leases: Leases,
        store: LeaseStore,
        lease_pins: LeasePins,
        tables: OpenTables,
        *,
        catalog: Catalog,
        claims: LeaseClaims,
        snapshots: Snapshots,
        sizes: LeaseBytes,
        principal: str,
    ) -> None:
        super().__init__(principal)
        self._leases = leases
        self._store = store
        self._lease_pins = lease_pins
        self._tables = tables
        self._catalog = catalog
        self._claims = claims
        self._snapshots = snapshots
        self._sizes = sizes

    def create_snapshot(self, table_id: int) -> list[Snapshot]:
        """Snapshot every bucket of a table at one cut; return the newest of each."""
        table = self._tables.get(table_id)
        taken = self._snapshots.create(table)
        # One without a name went with its partition meanwhile.
        named = ((table.find_name(bucket), bucket, found) for bucket, found in sorted(taken.items()))
        return [_shown(name, table.tablet(bucket), found) for name, bucket, found in named if name is not None]

    def list_snapshots(self, table_id: int) -> list[Snapshot]:
        """Return the snapshots of a table, by bucket, oldest first."""
        return SnapshotLister(self._tables.get).list_snapshots(table_id)

    def acquire(self, call: AcquireLease) -> LeaseInfo:
        """Take a lease, or more under one that is held."""
        lease, claimed = self._leases.acquire(call, self._principal)
        return self._info(lease, claimed.unavailable)

    def renew(self, lease_id: str, duration_ms: int | None = None) -> LeaseTime:
        """Have a lease last that long from now on."""
        lease = self._leases.renew(lease_id, self._principal, duration_ms)
        return LeaseTime(lease.duration_ms, self._store.expires_ms(lease))

    def release(self, lease_id: str, buckets: Sequence[TableBucket]) -> LeaseInfo:
        """Give some buckets back."""
        given = set(buckets)
        names = self._names(self._leases.get(lease_id).holds)
        chosen = [bucket for bucket, name in names.items() if name in given]
        return self._info(self._leases.release(lease_id, self._principal, chosen))

    def drop(self, lease_id: str) -> None:
        """Give everything back."""
        self._leases.drop(lease_id, self._principal)

    def get(self, lease_id: str) -> LeaseInfo:
        """Return a lease."""
        return self._info(self._leases.get(lease_id))

    def list(self) -> list[LeaseInfo]:
        """Return all leases."""
        return [self._info(lease) for lease in self._leases.all()]

    def kept_bytes(self, lease_id: str) -> int:
        """Return the size of the files that are kept only for a lease."""
        return self._sizes.of(self._leases.get(lease_id), self._claims.tablet)

    def _info(self, lease: Lease, unavailable: dict[TableBucket, str] | None = None) -> LeaseInfo:
        sharing = self._lease_pins.sharing(lease.holds)
        return LeaseInfo(
            lease_id=lease.lease_id,
            owner=lease.owner,
            duration_ms=lease.duration_ms,
            expires_ms=self._store.expires_ms(lease),
            leased=[
                Leased(bucket.table_id, self._leased(bucket, name, lease.holds[bucket], sharing[bucket]), base)
                for bucket, name, base in (
                    (bucket, name, lease.holds[bucket].pin) for bucket, name in sorted(self._names(lease.holds).items())
                )
            ],
            unavailable=unavailable or {},
            schemas=self._altered(lease) or None,
        )

    def _altered(self, lease: Lease) -> dict[int, int]:
        """Return the schemas that tables had when they were leased, of those that were altered since."""
        held = {table_id: at for table_id, at in lease.schemas.items() if self._catalog.knows(table_id)}
        return {
            table_id: schema_id
            for table_id, schema_id in held.items()
            if self._catalog.table_by_id(table_id, dropped=True).schema_id != schema_id
        }

    def _leased(self, bucket: BucketId, name: TableBucket, hold: Hold, holders: Sequence[PinHolder]) -> Snapshot:
        number = hold.snapshot_id or None
        path = None if number is None else snapshot_path(bucket, number)
        size = hold.bytes if hold.bytes != UNKNOWN else self._snapshot_bytes(bucket, hold.snapshot_id)
        return Snapshot(number, name, hold.offset, hold.created_ms, size, _lease_ids(holders), path)

    def _snapshot_bytes(self, bucket: BucketId, snapshot_id: int) -> int:
        tablet = self._claims.tablet(bucket) if snapshot_id else None
        found = () if tablet is None else tablet.snapshots.all()
        return sum(snapshot.bytes for snapshot in found if snapshot.snapshot_id == snapshot_id)

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


def _shown(name: TableBucket, tablet: Tablet | None, found: SnapshotFile) -> Snapshot:
    return Snapshot(
        id=found.snapshot_id,
        bucket=name,
        offset=found.offset,
        created_ms=found.created_ms,
        bytes=found.bytes,
        leased_by=() if tablet is None else _lease_ids(tablet.snapshots.holders(found.snapshot_id)),
        path=None if tablet is None else tablet.snapshots.path(found.snapshot_id),
    )


def _lease_ids(holders: Sequence[PinHolder]) -> tuple[str, ...]:
    return tuple(holder.id for holder in holders if holder.kind is PinKind.LEASE)


def _damaged(name: TableBucket, tablet: Tablet) -> Iterator[Snapshot]:
    """Yield the snapshots of a bucket that cannot be read: their files are all that is known of them."""
    for snapshot_id, error in tablet.snapshots.damaged().items():
        path = tablet.snapshots.path(snapshot_id)
        yield Snapshot(snapshot_id, name, NO_OFFSET, 0, tablet.files.disk.size(path), path=path, damaged=str(error))
