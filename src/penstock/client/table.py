"""A table as users hold it: a handle that knows the columns of the moment it was opened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.catalog.known_table import KnownTable
from penstock.client.catalog.table_alterations import TableAlterations
from penstock.client.catalog.table_definition import TableDefinition
from penstock.client.changes.range import EARLIEST, StartLike, is_position
from penstock.client.changes.stream import ChangeStream
from penstock.client.changes.streams import StreamRequest, Timeout, open_changes, open_snapshot_and_follow
from penstock.client.cut.as_of import AsOfLike
from penstock.client.cut.cut import CutLike
from penstock.client.hold.latest_snapshots import LatestSnapshots
from penstock.client.hold.owner import AttemptId, OwnerLike, attempt_bytes, owner_token
from penstock.client.ingest.arrow_source import kept
from penstock.client.link.buckets import BucketName
from penstock.client.link.link import Link
from penstock.client.link.writer_identity import WriterIdentity
from penstock.client.lookup.lookups import Lookups
from penstock.client.scan.request import compile_filter
from penstock.client.scan.table_reads import TableReads
from penstock.client.write.ignored_rows import explained
from penstock.client.write.requests import WriteRequests, listed
from penstock.client.write.table_owners import TableOwners
from penstock.client.write.writer import Writer
from penstock.errors import InvalidError
from penstock.model.node.calls import Images, ImagesLike, Offsets, Operation, WriteCall, WriteResult
from penstock.model.node.lease import Snapshot
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.agg_mode import AggModeLike
from penstock.model.table.table import TableInfo


class Table(TableDefinition, TableReads, TableAlterations, TableOwners):
    """A handle to one table. Thread-safe, cheap to share.

    It names the table by id, so it never reaches another table of the same name. It writes by the columns of the
    moment it was opened, so a column added since keeps its values under its upserts, and one renamed since is still
    written by the name of then; it reads the columns that the table has now.
    """

    def __init__(self, link: Link, info: TableInfo) -> None:
        super().__init__(link, info)
        self._known = KnownTable(link, info)
        self._requests = WriteRequests(info)
        self._lookups = Lookups(link, self._known)

    def upsert(
        self,
        data: object,
        columns: Iterable[str] | None = None,
        agg_mode: AggModeLike = "accumulate",
        owner: OwnerLike | None = None,
        attempt: AttemptId | None = None,
        *,
        expect: object = None,
    ) -> WriteResult:
        """Insert or replace rows by key; with `columns=` write only those. Return when durable and visible.

        `expect` has one offset for each row, that of the live row which its key must have, or None where there must
        be none: a list, or an int64 array of NumPy, Arrow or pandas. Keys come once then.

        Raises:
            ConflictError: a row is not the one expected; `keys` names these keys. Nothing was written.
            SchemaMismatchError: the data does not fit; names column and row. Nothing was written.
            InvalidError: the request is wrong. Nothing was written.
            UnsupportedError: the table has no primary key.
            UnavailableError: not now; the same call may succeed later.
        """
        data = kept(data)
        token, ident, named = owner_token(owner), attempt_bytes(attempt), listed(columns)
        return self._write(
            self._call(data, lambda made: made.upsert(data, named, agg_mode, token, ident, expect=expect))
        )

    def delete(
        self,
        keys: object,
        columns: Iterable[str] | None = None,
        owner: OwnerLike | None = None,
        attempt: AttemptId | None = None,
        *,
        expect: object = None,
    ) -> WriteResult:
        """Delete the rows of these keys; with `columns=` null those, and delete a row when none is left.

        `expect` says which rows must be there, as for `upsert`.

        Raises:
            ConflictError: a row is not the one expected; `keys` names these keys. Nothing was written.
            SchemaMismatchError: the keys do not fit; names column and row. Nothing was written.
            DeleteDisabledError: the table allows no deletes.
            UnsupportedError: the table has no primary key.
            UnavailableError: not now; the same call may succeed later.
        """
        keys = kept(keys)
        token, ident, named = owner_token(owner), attempt_bytes(attempt), listed(columns)
        return self._write(self._call(keys, lambda made: made.delete(keys, named, token, ident, expect=expect)))

    def append(self, data: object, owner: OwnerLike | None = None, attempt: AttemptId | None = None) -> WriteResult:
        """Append rows to a log table. Return when durable and visible.

        Raises:
            SchemaMismatchError: the data does not fit; names column and row. Nothing was written.
            UnsupportedError: the table has a primary key.
            UnavailableError: not now; the same call may succeed later.
        """
        data, token, ident = kept(data), owner_token(owner), attempt_bytes(attempt)
        return self._write(self._call(data, lambda made: made.append(data, token, ident)))

    def apply_changes(
        self,
        changes: object,
        owner: OwnerLike | None = None,
        attempt: AttemptId | None = None,
        columns: Iterable[str] | None = None,
    ) -> WriteResult:
        """Apply rows that say in `_change_type` what they do, as a changelog emits them.

        `columns` names those to write, the others keep their values; a delete still takes the row. On
        aggregating tables a column that the changes lack contributes nothing.

        Raises:
            SchemaMismatchError: the changes do not fit; names column and row. Nothing was written.
            InvalidError: a change type is unknown. Nothing was written.
            DeleteDisabledError: the table allows no deletes, and a log table has none.
            UnavailableError: not now; the same call may succeed later.
        """
        token, ident, named = owner_token(owner), attempt_bytes(attempt), listed(columns)
        return self._write(self._call(changes, lambda made: made.apply_changes(changes, token, ident, named)))

    def delete_where(self, filter: str | pc.Expression) -> WriteResult:
        """Delete the rows that match, as of one cut; in the changelog like any delete.

        Raises:
            InvalidError: the filter is not understood.
            DeleteDisabledError: the table allows no deletes.
            UnavailableError: not now; the same call may succeed later.
        """
        self._requests.require_key("delete_where")
        compiled = self._known.read(lambda info: compile_filter(filter, info.schema))
        if compiled is None:
            raise InvalidError("delete_where needs a filter; truncate deletes all rows", table=self.path)
        table_id = self._info.table_id

        def send(writer: WriterIdentity) -> WriteResult:
            identity = writer.writer_id, writer.sequence
            return self._link.retry.run(lambda: self._link.node.tables.delete_where(table_id, compiled, *identity))

        return explained(self._link.identities.lend(send), self._info, Operation.DELETE)

    def truncate(self) -> WriteResult:
        """Delete all rows; in the changelog like any delete.

        Raises:
            DeleteDisabledError: the table allows no deletes.
            UnavailableError: not now; the same call may succeed later.
        """
        return self._link.once(lambda node: node.tables.truncate(self._info.table_id))

    def writer(
        self,
        *,
        batch_rows: int = 10_000,
        batch_bytes: int | str = "4MB",
        linger_ms: int = 10,
        owner: OwnerLike | None = None,
        attempt: AttemptId | None = None,
    ) -> Writer:
        """Open a pipelined writer: it sends a batch when that is full, or `linger_ms` old.

        With an attempt, closing it cleanly ends the attempt.

        Raises:
            InvalidError: a bound is not positive.
        """
        return Writer(
            self._link,
            self._info,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            linger_ms=linger_ms,
            owner=owner,
            attempt=attempt,
        )

    def create_snapshot(self) -> dict[TableBucket, Snapshot]:
        """Snapshot every bucket at one cut; return the newest of each, which is an older one if nothing changed.

        Raises:
            TableNotFoundError: the table was dropped.
            UnsupportedError: a log table has no snapshots.
            UnavailableError: not now; the same call may succeed later.
        """
        taken = self._link.retry.run(lambda: self._link.node.leases.create_snapshot(self._info.table_id))
        return {snapshot.bucket: snapshot for snapshot in taken}

    def list_snapshots(self) -> list[Snapshot]:
        """Return the snapshots that there are, by bucket, oldest first.

        Raises:
            TableNotFoundError: the table was dropped.
        """
        return self._link.retry.run(lambda: self._link.node.leases.list_snapshots(self._info.table_id))

    @property
    def latest_snapshots(self) -> LatestSnapshots:
        """Return what `acquire_lease` takes for the newest snapshots, which it takes if there are none."""
        return LatestSnapshots(self._info.table_id, self.path, self._link.database)

    def changes(
        self,
        start: StartLike = EARLIEST,
        end: CutLike | None = None,
        follow: bool = False,
        timeout: Timeout = None,
        columns: Iterable[str] | None = None,
        *,
        images: ImagesLike = Images.FULL,
        buckets: Iterable[BucketName] | None = None,
        filter: str | pc.Expression | None = None,
    ) -> ChangeStream:
        """Stream changes from `start` to `end` or the present end; with `follow` also those to come.

        A following stream ends when no change came for `timeout`. With `filter` an update that leaves it is -D, one
        that enters it +I, and what is outside of it before and after does not come.

        Raises:
            InvalidError: the request is wrong.
            OffsetOutOfRangeError: the start is no longer kept, or not yet written.
            TableNotFoundError: the table was dropped.
        """
        request = StreamRequest(
            end=end,
            follow=follow,
            timeout=timeout,
            columns=columns,
            images=images,
            buckets=buckets,
            filter=filter,
        )
        return open_changes(self._link, self._known.refresh(), start, request)

    def snapshot_and_follow(
        self,
        start: str | None = None,
        end: CutLike | None = None,
        follow: bool = True,
        timeout: Timeout = None,
        columns: Iterable[str] | None = None,
        *,
        images: ImagesLike = Images.FULL,
        buckets: Iterable[BucketName] | None = None,
        filter: str | pc.Expression | None = None,
    ) -> ChangeStream:
        """Stream the present rows as +I, then every change after exactly that cut; with `filter` as `changes` has it.

        `start` is a stored position of such a stream, which goes on there.

        Raises:
            InvalidError: the request is wrong.
            OffsetOutOfRangeError: what the position names is no longer kept.
            TableNotFoundError: the table was dropped.
        """
        request = StreamRequest(
            end=end,
            follow=follow,
            timeout=timeout,
            columns=columns,
            images=images,
            buckets=buckets,
            filter=filter,
        )
        if start is None:
            return open_snapshot_and_follow(self._link, self._known.refresh(), request)
        if not is_position(start):
            raise InvalidError("snapshot_and_follow starts with a snapshot, or goes on at a position", start=start)
        return open_changes(self._link, self._known.refresh(), start, request)

    def offsets(self) -> dict[TableBucket, Offsets]:
        """Return for each bucket the oldest change that is kept, and the next to come.

        Raises:
            TableNotFoundError: the table was dropped.
        """
        return self._link.retry.run(lambda: self._link.node.changes.offsets(self._info.table_id))

    def lookup(
        self,
        keys: object,
        columns: Iterable[str] | None = None,
        as_of: AsOfLike | None = None,
        offsets: bool = False,
        consistency: str | None = None,
    ) -> pa.Table:
        """Return one row for each key in the order asked; `_found` is false and the rest null where absent.

        With `as_of`, a cut or a moment, the rows are those of then. With `offsets` each row has the column `_offset`:
        the offset at which it began. `consistency` is "leader", or None, which means the same: the leader answers.

        Raises:
            InvalidError: a column is unknown, or the consistency, or `as_of` is neither a cut nor a moment.
            OffsetOutOfRangeError: `as_of` is older than what is kept, or not yet written.
            PartitionNotFoundError: `as_of` names a partition that is gone, or is a moment before it went.
            SchemaMismatchError: the keys do not fit the table.
            UnsupportedError: the table has no primary key.
        """
        return self._lookups.lookup(keys, columns, as_of, offsets, consistency)

    def get(self, value: Any = ..., /, **key: Any) -> dict[str, Any] | None:
        """Return the row of one key as a dict, None if there is none: `t.get(id=1)`, or `t.get(1)` of a lone key.

        `as_of`, a cut or a moment, asks for the row of then, unless a key column has that name.

        Raises:
            InvalidError: not every key column was given, or another one, or `as_of` is neither a cut nor a moment.
            OffsetOutOfRangeError: `as_of` is older than what is kept, or not yet written.
            SchemaMismatchError: a value does not fit.
            UnsupportedError: the table has no primary key.
        """
        names = self._info.primary_key
        as_of = None if "as_of" in names else key.pop("as_of", None)
        if value is not ...:
            if len(names) != 1 or key:
                raise InvalidError("a lone key may be given by position; name these columns", primary_key=list(names))
            key = {names[0]: value}
        return self._lookups.get(key, as_of)

    def prefix_lookup(self, /, **prefix: Any) -> pa.Table:
        """Return the live rows whose first key columns have these values: `t.prefix_lookup(city="Ulm")`.

        Raises:
            InvalidError: the columns are not the first of the key.
            SchemaMismatchError: a value does not fit.
            UnsupportedError: the table has no primary key.
        """
        return self._lookups.prefix_lookup(prefix)

    def _altered(self, info: TableInfo) -> Self:
        self._known.adopt(info)
        self._take_info(info)
        return type(self)(self._link, info)

    def _take_info(self, info: TableInfo) -> None:
        self._info = info
        self._requests = WriteRequests(info)

    def _write(self, call: WriteCall) -> WriteResult:
        if call.batch.num_rows == 0:
            return WriteResult(0, 0, 0)

        def send(writer: WriterIdentity) -> WriteResult:
            sent = replace(call, writer_id=writer.writer_id, sequence=writer.sequence)
            return self._link.retry.run(lambda: self._link.node.tables.write(sent))

        return explained(self._link.identities.lend(send), self._info, call.operation, call.columns)
