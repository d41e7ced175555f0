"""A lease as users hold it: what it pins stays readable until it ends."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType

from penstock.client.hold.lease_handle import LeaseHandle
from penstock.client.hold.renewal import Renewal
from penstock.client.leases.lease_request import Leasable, lease_request
from penstock.client.leases.leased_table import LeasedTable
from penstock.client.link.link import Link
from penstock.client.scan.lease_cut import leased_info
from penstock.client.table import Table
from penstock.errors import InvalidError, LeaseNotFoundError, PenstockError, TableNotFoundError
from penstock.model.node.lease import LeaseInfo, Snapshot
from penstock.model.place.bucket import TableBucket
from penstock.model.words.html_table import html_table
from penstock.model.words.names import TablePath
from penstock.model.words.quantity import parse_duration_ms

_log = logging.getLogger("penstock")


class Lease(LeaseHandle):
    """A lease of this connection's user. A context manager that gives it back; thread-safe.

    With `auto_renew` it is renewed in the background until it is given back or forgotten. If that
    fails it is logged as an error, and leaving the context raises it.
    """

    def __init__(self, link: Link, info: LeaseInfo, *, auto_renew: bool = False) -> None:
        super().__init__(link, info.lease_id)
        self._link = link
        self._info = info
        self._dropped = False
        self._renewal: Renewal | None = None
        if auto_renew:

            def renew() -> None:
                link.node.leases.renew(info.lease_id, info.duration_ms)

            self._renewal = Renewal("lease", info.lease_id, renew, life_ms=info.duration_ms, lost="what it held may go")

    @property
    def owner(self) -> str:
        """Return the principal that has the lease."""
        return self._info.owner

    @property
    def info(self) -> LeaseInfo:
        """Return everything about it, as of the last call."""
        return self._info

    @property
    def snapshots(self) -> dict[TableBucket, Snapshot]:
        """Return what it holds, as of the last call."""
        return self._info.snapshots

    @property
    def unavailable(self) -> dict[TableBucket, str]:
        """Return what could not be had when it was acquired, and why."""
        return dict(self._info.unavailable)

    @property
    def expires_at(self) -> datetime:
        """Return when it ends unless it is renewed, as of the last call; with `auto_renew` it is later."""
        return self._info.expires_at

    @property
    def bytes(self) -> int:
        """Return the size of the files that are kept only for it, now.

        Raises:
            LeaseNotFoundError: it has expired.
        """
        return self._link.retry.run(lambda: self._link.node.leases.kept_bytes(self.id))

    @property
    def failure(self) -> PenstockError | None:
        """Return why the background renewal ended, None while it does not."""
        return None if self._renewal is None else self._renewal.failure

    def table(self, table: str | int) -> Table:
        """Return a handle to what it holds of a table, named by path or id, also if that was dropped since.

        Scans, and changes up to the leased offsets, read what is leased; the rest is the table's own.

        Raises:
            LeaseNotFoundError: it has expired, or is unknown.
            TableNotFoundError: it holds nothing of that table.
            InvalidError: it holds two tables of that path, one dropped since.
        """
        self._info = self._link.retry.run(lambda: self._link.node.leases.get(self.id))
        paths = {leased.table_id: leased.snapshot.bucket.table for leased in self._info.leased}
        named = table if isinstance(table, int) else str(TablePath.parse(table))
        found = [table_id for table_id, path in paths.items() if named in (table_id, path)]
        if not found:
            held = ", ".join(sorted({f"{path} (id {table_id})" for table_id, path in paths.items()}))
            raise TableNotFoundError(f"the lease does not hold that table; it holds {held or 'nothing'}", table=named)
        if len(found) > 1:
            raise InvalidError(
                "the lease holds two tables of that path, one dropped since; name one by its id",
                lease_id=self.id,
                table=named,
                table_ids=sorted(found),
            )
        info = self._link.retry.run(lambda: self._link.node.catalog.table_by_id(found[0]))
        return LeasedTable(self._link, leased_info(self._link, info, self.id), self.id)

    def renew(self, duration: str | timedelta | None = None) -> None:
        """Have it last that long from now on; None: as long as before.

        Raises:
            LeaseNotFoundError: it has expired, or is unknown; acquire it again.
            LimitError: the duration is above `kv.lease.max-duration`.
            PermissionDeniedError: it is another principal's.
        """
        duration_ms = None if duration is None else parse_duration_ms(duration)
        time = self._link.retry.run(lambda: self._link.node.leases.renew(self.id, duration_ms))
        self._info = replace(self._info, duration_ms=time.duration_ms, expires_ms=time.expires_ms)

    def release(self, buckets: Iterable[TableBucket]) -> None:
        """Give some buckets back; the rest stays held.

        Raises:
            LeaseNotFoundError: it has expired, or is unknown.
            PermissionDeniedError: it is another principal's.
            InvalidError: not buckets.
        """
        named = _bucket_list(buckets)
        self._info = self._link.retry.run(lambda: self._link.node.leases.release(self.id, named))

    def drop(self) -> None:
        """Give it back, with everything that it holds.

        Raises:
            LeaseNotFoundError: it has expired, or is unknown.
            PermissionDeniedError: it is another principal's.
        """
        self._end_renewal()
        self._link.once(lambda node: node.leases.drop(self.id))
        self._dropped = True

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_renewal()
        lost = self.failure
        if lost is not None and error is None:
            raise lost
        if lost is None and not self._dropped and not self._link.closed:
            try:
                self._link.once(lambda node: node.leases.drop(self.id))
            except LeaseNotFoundError:
                _log.warning("lease had ended before its block did lease_id=%s", self.id)
            except PenstockError as refused:
                # The reader has what it wanted; what cannot be given back now expires by itself.
                _log.warning("lease was not given back and will expire lease_id=%s reason=%s", self.id, refused)

    def _end_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.end()

    def __repr__(self) -> str:
        return f"<Lease {self.id} of {self.owner}, {len(self._info.leased)} buckets, until {self.expires_at:%F %T} UTC>"

    def _repr_html_(self) -> str:
        held = [(bucket, snapshot.id, snapshot.offset) for bucket, snapshot in self.snapshots.items()]
        missing = [(bucket, reason) for bucket, reason in self.unavailable.items()]
        shown = html_table(repr(self), ("bucket", "snapshot", "offset"), held)
        return shown + (html_table("unavailable", ("bucket", "reason"), missing) if missing else "")


def acquire(
    link: Link,
    lease_id: str,
    what: Leasable | Sequence[Leasable],
    *,
    duration: str | timedelta,
    auto_renew: bool = False,
) -> Lease:
    """Acquire a lease on what is named.

    Raises:
        InvalidError: what is asked for is not understood.
        LimitError: the duration is above `kv.lease.max-duration`.
        PermissionDeniedError: another principal has a lease of that id.
        TableNotFoundError: a table was dropped.
        UnsupportedError: a log table has no snapshots.
    """
    call = lease_request(link, lease_id, what, duration)
    return Lease(link, link.retry.run(lambda: link.node.leases.acquire(call)), auto_renew=auto_renew)


def _bucket_list(buckets: object) -> list[TableBucket]:
    items = buckets if isinstance(buckets, Iterable) and not isinstance(buckets, TableBucket) else [buckets]
    named = []
    for bucket in items:
        if not isinstance(bucket, TableBucket):
            raise InvalidError("a lease gives back penstock.TableBucket, as lease.snapshots names them", found=bucket)
        named.append(bucket)
    return named
