"""Buckets that leases hold, found by the names that readers know, whatever became of their tables."""

from __future__ import annotations

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.leases.leases import Leases
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.open_tables import OpenTables
from penstock.engine.table.pins import not_led
from penstock.errors import InvalidError, LeaseNotFoundError
from penstock.model.node.calls import Offsets
from penstock.model.node.principal import may_change
from penstock.model.place.bucket import BucketId, TableBucket


class LeasedBuckets:
    """Finds what leases hold, for readers. Thread-safe: keeps nothing of its own."""

    def __init__(self, leases: Leases, tables: OpenTables, catalog: Catalog) -> None:
        self._leases = leases
        self._tables = tables
        self._catalog = catalog

    def find(
        self, lease_id: str, table_id: int, name: TableBucket, offset: int | None = None, *, principal: str
    ) -> tuple[OpenTable, BucketId]:
        """Return a bucket that a lease holds, whatever became of its table; of several lives that of the offset.

        Raises:
            LeaseNotFoundError: the lease is unknown or has expired.
            PermissionDeniedError: it is not the principal's.
            InvalidError: it does not hold the bucket.
        """
        lease = self._leases.own(lease_id, principal)
        partitions = {0: None} | self._catalog.partitions.names(table_id)
        # Of two partitions of one name, one of which is dropping, the younger has it.
        for partition_id in sorted((i for i, known in partitions.items() if known == name.partition), reverse=True):
            bucket = BucketId(table_id, partition_id, name.bucket)
            hold = lease.holds.get(bucket)
            if hold is not None and (offset is None or bucket.first_offset(offset) == bucket.first_offset(hold.offset)):
                return self._tables.holding(bucket), bucket
        raise InvalidError("the lease does not hold that bucket", lease_id=lease_id, bucket=name)

    def offsets(
        self, lease_id: str, table_id: int, timestamp_ms: int | None = None, *, principal: str
    ) -> dict[TableBucket, Offsets]:
        """Return base and leased offset of every bucket of a table that a lease holds, whatever became of it.

        With a timestamp, base is the first change at or after it.

        Raises:
            LeaseNotFoundError: the lease is unknown or has expired.
            PermissionDeniedError: it is not the principal's.
            InvalidError: it holds two partitions of one name.
        """
        found: dict[TableBucket, Offsets] = {}
        for bucket, hold in self._leases.own(lease_id, principal).holds.items():
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

    def holds_dropped(self, table_id: int, principal: str) -> bool:
        """Tell whether a principal has a lease on a table that was dropped."""
        if table_id not in self._catalog.dropped():
            return False
        leases = (lease for lease in self._leases.all() if may_change(principal, lease.owner))
        return any(bucket.table_id == table_id for lease in leases for bucket in lease.holds)


class NothingLeased:
    """The leases of a node that has none: a read-only one, which holds nothing."""

    def find(
        self, lease_id: str, table_id: int, name: TableBucket, offset: int | None = None, *, principal: str
    ) -> tuple[OpenTable, BucketId]:
        """Refuse a lease.

        Raises:
            LeaseNotFoundError: always.
        """
        raise LeaseNotFoundError("a read-only connection has no leases", lease_id=lease_id, bucket=name)

    def offsets(
        self, lease_id: str, table_id: int, timestamp_ms: int | None = None, *, principal: str
    ) -> dict[TableBucket, Offsets]:
        """Refuse a lease.

        Raises:
            LeaseNotFoundError: always.
        """
        raise LeaseNotFoundError("a read-only connection has no leases", lease_id=lease_id)
