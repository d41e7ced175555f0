"""A table as users hold it: a handle that knows the columns of the moment it was opened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.catalog.table_definition import TableDefinition
from penstock.client.changes.range import EARLIEST, StartLike, is_position
from penstock.client.changes.stream import ChangeStream
from penstock.client.changes.streams import StreamRequest, Timeout, open_changes, open_snapshot_and_follow
from penstock.client.cut.cut import CutLike
from penstock.client.hold.latest_snapshots import LatestSnapshots
from penstock.client.hold.owner import AttemptId, OwnerLike, attempt_bytes, owner_token
from penstock.client.link.buckets import BucketName
from penstock.client.link.link import Link
from penstock.client.link.writer_identity import WriterIdentity
from penstock.client.lookup.lookups import Lookups
from penstock.client.scan.request import compile_filter
from penstock.client.scan.table_reads import TableReads
from penstock.client.write.requests import WriteRequests
from penstock.client.write.table_owners import TableOwners
from penstock.client.write.writer import Writer
from penstock.errors import InvalidError
from penstock.model.node.calls import Images, Offsets, WriteCall, WriteResult
from penstock.model.node.lease import Snapshot
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.aggregate import AggFunction
from penstock.model.schema.type_words import parse_type
from penstock.model.table.table import TableInfo


class Table(TableDefinition, TableReads, TableOwners):
    """A handle to one table. Thread-safe, cheap to share.

    It names the table by id, so it never reaches another table of the same name; and it knows the
    columns of the moment it was opened, so a column added since keeps its values under its upserts.
    """

    def __init__(self, link: Link, info: TableInfo) -> None:
        super().__init__(link, info)
        self._requests = WriteRequests(info)
        self._lookups = Lookups(link, info)

    def upsert(
        self,
        data: object,
        columns: Iterable[str] | None = None,
        agg_mode: str = "accumulate",
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
        token, attempt_id = owner_token(owner), attempt_bytes(attempt)
        return self._write(self._requests.upsert(data, columns, agg_mode, token, attempt_id, expect=expect))

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
        token, attempt_id = owner_token(owner), attempt_bytes(attempt)
        return self._write(self._requests.delete(keys, columns, token, attempt_id, expect=expect))

    def append(self, data: object, owner: OwnerLike | None = None, attempt: AttemptId | None = None) -> WriteResult:
        """Append rows to a log table. Return when durable and visible.

        Raises:
            SchemaMismatchError: the data does not fit; names column and row. Nothing was written.
            UnsupportedError: the table has a primary key.
            UnavailableError: not now; the same call may succeed later.
        """
        return self._write(self._requests.append(data, owner_token(owner), attempt_bytes(attempt)))

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
        return self._write(self._requests.apply_changes(changes, owner_token(owner), attempt_bytes(attempt), columns))

    def delete_where(self, filter: str | pc.Expression) -> WriteResult:
        """Delete the rows that match, as of one cut; in the changelog like any delete.

        Raises:
            InvalidError: the filter is not understood.
            DeleteDisabledError: the table allows no deletes.
            UnavailableError: not now; the same call may succeed later.
        """
        self._requests.require_key("delete_where")
        compiled = compile_filter(filter, self._info.schema)
        if compiled is None:
            raise InvalidError("delete_where needs a filter; truncate deletes all rows", table=self.path)
        table_id = self._info.table_id

        def send(writer: WriterIdentity) -> WriteResult:
            identity = writer.writer_id, writer.sequence
            return self._link.retry.run(lambda: self._link.node.tables.delete_where(table_id, compiled, *identity))

        return self._link.identities.lend(send)

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
        images: Images | str = Images.FULL,
        buckets: Iterable[BucketName] | None = None,
    ) -> ChangeStream:
        """Stream changes from `start` to `end` or the present end; with `follow` also those to come.

        A following stream ends when no change came for `timeout`.

        Raises:
            InvalidError: the request is wrong.
            OffsetOutOfRangeError: the start is no longer kept, or not yet written.
            TableNotFoundError: the table was dropped.
        """
        request = StreamRequest(
            end=end, follow=follow, timeout=timeout, columns=columns, images=images, buckets=buckets
        )
        return open_changes(self._link, self._info, start, request)

    def snapshot_and_follow(
        self,
        start: str | None = None,
        end: CutLike | None = None,
        follow: bool = True,
        timeout: Timeout = None,
        columns: Iterable[str] | None = None,
        *,
        images: Images | str = Images.FULL,
        buckets: Iterable[BucketName] | None = None,
    ) -> ChangeStream:
        """Stream the present rows as +I, then every change after exactly that cut.

        `start` is a stored position of such a stream, which goes on there.

        Raises:
            InvalidError: the request is wrong.
            OffsetOutOfRangeError: what the position names is no longer kept.
            TableNotFoundError: the table was dropped.
        """
        request = StreamRequest(
            end=end, follow=follow, timeout=timeout, columns=columns, images=images, buckets=buckets
        )
        if start is None:
            return open_snapshot_and_follow(self._link, self._info, request)
        if not is_position(start):
            raise InvalidError("snapshot_and_follow starts with a snapshot, or goes on at a position", start=start)
        return open_changes(self._link, self._info, start, request)

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
        *,
        offsets: bool = False,
        consistency: str | None = None,
    ) -> pa.Table:
        """Return one row for each key in the order asked; `_found` is false and the rest null where absent.

        With `offsets` each row has the column `_offset`: the offset at which it began. `consistency` is "leader", or
        None, which means the same: the leader answers.

        Raises:
            InvalidError: a column is unknown, or the consistency.
            SchemaMismatchError: the keys do not fit the table.
            UnsupportedError: the table has no primary key.
        """
        return self._lookups.lookup(keys, columns, offsets=offsets, consistency=consistency)

    def get(self, /, **key: Any) -> dict[str, Any] | None:
        """Return the row of one key as a dict, None if there is none: `t.get(id=1)`.

        Raises:
            InvalidError: not every key column was given, or another one.
            SchemaMismatchError: a value does not fit.
            UnsupportedError: the table has no primary key.
        """
        return self._lookups.get(key)

    def prefix_lookup(self, /, **prefix: Any) -> pa.Table:
        """Return the live rows whose first key columns have these values: `t.prefix_lookup(city="Ulm")`.

        Raises:
            InvalidError: the columns are not the first of the key.
            SchemaMismatchError: a value does not fit.
            UnsupportedError: the table has no primary key.
        """
        return self._lookups.prefix_lookup(prefix)

    def add_column(self, name: str, type: pa.DataType | str, agg: AggFunction | str | None = None) -> Table:
        """Add a nullable column; return a handle that knows it. This handle does not.

        Raises:
            AlreadyExistsError: there is a column of that name.
            InvalidError: name or type is not allowed.
        """
        function = None if agg is None else AggFunction.parse(agg)
        kept = parse_type(type, name)
        info = self._link.once(lambda node: node.catalog.add_column(self._info.table_id, name, kept, function))
        return Table(self._link, info)

    def _write(self, call: WriteCall) -> WriteResult:
        if call.batch.num_rows == 0:
            return WriteResult(0, 0, 0)

        def send(writer: WriterIdentity) -> WriteResult:
            sent = replace(call, writer_id=writer.writer_id, sequence=writer.sequence)
            return self._link.retry.run(lambda: self._link.node.tables.write(sent))

        return self._link.identities.lend(send)
