"""What a table offers to jobs that recover: owners, staged rows, the ends of attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from penstock.client.catalog.known_table import KnownTable
from penstock.client.hold.owner import AttemptId, Owner, OwnerLike, acquire, attempt_bytes, check_rows, owner_token
from penstock.client.link.link import Link
from penstock.client.link.writer_identity import WriterIdentity
from penstock.client.write.requests import WriteRequests, is_kept, listed
from penstock.errors import InvalidError, SchemaMismatchError
from penstock.model.node.calls import WriteCall, WriteResult
from penstock.model.node.owner import AttemptEnd
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.agg_mode import AggModeLike
from penstock.model.table.table import TableInfo


class TableOwners:
    """The part of a table handle that is about owners."""

    _link: Link
    _info: TableInfo
    _requests: WriteRequests
    _known: KnownTable

    def acquire_owner(
        self,
        owner: str | None,
        columns: Iterable[str] | None = None,
        ttl: str | timedelta | None = None,
        incarnation: str | None = None,
    ) -> Owner:
        """Become the owner of columns, or of all, under an id, or a new one for None; renewed until it is released.

        The same id again fences the older holder. An owner of a column that is declared not null gets all columns.

        Raises:
            LockedError: another owner holds one of the columns; names it, its columns and the time left.
            ConflictError: the id belongs to another incarnation, until `drop_owner`.
            UnsupportedError: the table has `column-lock.enabled=false`.
            InvalidError: a column is unknown.
        """
        named = listed(columns)
        return self._known.read(
            lambda info: acquire(self._link, info, owner, columns=named, ttl=ttl, incarnation=incarnation)
        )

    def stage(
        self,
        data: object,
        *,
        owner: OwnerLike,
        attempt: AttemptId,
        columns: Iterable[str] | None = None,
        agg_mode: AggModeLike = "accumulate",
        changes: bool = False,
    ) -> WriteResult:
        """Make rows durable that appear only at `owner.commit(epoch, attempts=[...])`.

        With `changes` the rows say in `_change_type` what they do, as for `apply_changes`.

        Raises:
            FencedError: the epoch is not open under that token.
            SchemaMismatchError: the data does not fit; names column and row.
            UnavailableError: not now; the same call may succeed later.
        """
        token, ident, named = owner_token(owner), attempt_bytes(attempt), listed(columns)
        if changes:
            call = self._call(data, lambda made: made.apply_changes(data, token, ident, named))
        elif not self._info.keyed:
            call = self._call(data, lambda made: made.append(data, token, ident))
        else:
            call = self._call(data, lambda made: made.upsert(data, named, agg_mode, token, ident))

        def send(writer: WriterIdentity) -> WriteResult:
            sent = replace(call, writer_id=writer.writer_id, sequence=writer.sequence)
            return self._link.retry.run(lambda: self._link.node.owners.stage(sent))

        return self._link.identities.lend(send)

    def _call(self, data: object, make: Callable[[WriteRequests], WriteCall]) -> WriteCall:
        """Return a write call by the handle's own columns; where the data does not fit them, by the present ones."""
        try:
            return make(self._requests)
        except SchemaMismatchError:
            fitting = self._known.fitting(lambda info: make(WriteRequests(info))) if is_kept(data) else None
            if fitting is None:
                raise
            return fitting

    def end_attempt(self, *, owner: OwnerLike, attempt: AttemptId, rows: int | Mapping[TableBucket, int]) -> AttemptEnd:
        """End an attempt that wrote so many rows; the first to end wins, and the answer names the attempt that did.

        Raises:
            FencedError: a newer attempt, or a newer holder, has taken over.
            ConflictError: not as many rows arrived.
            InvalidError: `rows` is no number, `attempt` no uuid, `owner` no owner.
        """
        token = owner_token(owner)
        if token is None:
            raise InvalidError("an attempt belongs to an owner's epoch; pass owner=")
        written = sum(map(check_rows, rows.values())) if isinstance(rows, Mapping) else check_rows(rows)
        ident = attempt_bytes(attempt)
        return self._link.retry.run(lambda: self._link.node.owners.end_attempt(token, ident, written))
