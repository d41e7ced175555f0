"""Staged rows on their way in: staged beside the committer, decided with the epoch, rolled forward.

The epoch's record names the accepted attempts in the same write that commits it. From then on nothing
is decided any more: every bucket gets its staged rows, each call of them once, which the headers of
its log record; a crash in the middle is finished when the table is opened again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from penstock.engine.commit.conforming import conformed
from penstock.engine.commit.group import OwnerStamp, QueuedWrite, WriteGroup
from penstock.engine.owners.admission import OwnerAdmission
from penstock.engine.owners.attempts import Attempts
from penstock.engine.owners.column_locks import removes_rows
from penstock.engine.owners.live_owner import LiveOwner
from penstock.engine.owners.staging import StagedFile, StagedRows
from penstock.engine.owners.store import OwnerStore
from penstock.engine.owners.undo import OwnerUndo
from penstock.engine.table.deletion import deletes_of
from penstock.engine.table.open_table import OpenTable
from penstock.errors import ConflictError, InvalidError, UnavailableError, UnsupportedError
from penstock.model.node.calls import WriteCall, WriteResult
from penstock.model.node.owner_token import OwnerToken
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import BatchKind
from penstock.model.place.facts import NO_ID
from penstock.model.table.merge_engine import DeleteBehavior
from penstock.model.table.partition import partition_codes, partition_columns
from penstock.runtime.disk import Disk
from penstock.tablet.merge.required_columns import required_columns
from penstock.tablet.merge.rule import Request
from penstock.tablet.schema import TabletSchema

TOGETHER_BYTES_MAX = 64 << 20
"""Up to here the rows of all buckets become visible at once; beyond, as many buckets at a time as have no more.

What is held in memory is no more either, but for a single bucket that has more.
"""

CLEARING = b"\xff" * 16
"""The attempt under which a commit that replaces a table stages its deletes; no uuid is all ones."""
CLEARING_TURN = 0
"""Before the turn of any call."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The staged rows that a commit accepts: their attempts, and their plan if it is small enough to keep."""

    attempts: tuple[bytes, ...]
    plan: WriteGroup | None


class StagedCommit:
    """The staged rows of one table, from their call to their buckets."""

    def __init__(
        self,
        table: OpenTable,
        disk: Disk,
        store: OwnerStore,
        undo: OwnerUndo,
        guard: OwnerAdmission,
        *,
        together_bytes_max: int = TOGETHER_BYTES_MAX,
    ) -> None:
        self._table = table
        self._owners = store
        self._undo = undo
        self._guard = guard
        self._rows = StagedRows(disk, table.info.table_id)
        self._together_bytes_max = together_bytes_max
        guard.find_staged = self._find_staged

    def stage(self, call: WriteCall) -> WriteResult:
        """Make rows durable that wait for their epoch's commit.

        Raises:
            FencedError: the epoch is not open under that token.
            UnavailableError: the disk refused; nothing was staged.
        """
        token = _token(call)
        self._guard.require_epoch(token)
        stamp = OwnerStamp(token.number, token.fence, token.epoch, call.attempt)
        queued = self._table.route(call)
        self._check(stamp, queued)
        done = self._known(stamp, call)
        if done is None:
            file = StagedFile(
                token.number,
                token.epoch,
                self._rows.turn(),
                call.attempt,
                call.writer_id,
                call.sequence,
                call.batch.num_rows,
            )
            schema = self._table.schema
            parts = {bucket: conformed(part, schema, queued.known) for bucket, part in queued.parts.items()}
            self._store(file, parts)
            self._table.committer.run(lambda: self._keep(stamp, file, schema))
        return WriteResult(call.batch.num_rows, 0, 0)

    def rows(self, owner: int, epoch: int) -> Mapping[bytes, int]:
        """Return how many rows each attempt has staged for an epoch."""
        counts: Counter[bytes] = Counter()
        for file in self._rows.of(owner):
            if file.epoch == epoch:
                counts[file.attempt] += file.rows
        return counts

    def clear(self, owner: LiveOwner, epoch: int) -> dict[bytes, int]:
        """Stage deletes of all rows there are, ahead of the epoch's own; return the attempt. Committer only.

        Raises:
            LockedError: another owner holds columns of the rows.
            UnavailableError: the disk refused; nothing was staged.
            UnsupportedError: the table does not allow deletes.
        """
        info = self._table.info
        if not info.keyed or info.options.delete_behavior is not DeleteBehavior.ALLOW:
            raise UnsupportedError("the table's rows cannot be replaced: it allows no deletes", table=info.path)
        number = owner.record.number
        # A commit that was refused has left its own.
        self._rows.remove(file for file in self._rows.of(number) if file.attempt == CLEARING)
        # Before the rows are looked at: to undo what an expired owner left may bring some back.
        self._guard.settle_removal(number)
        parts = deletes_of(self._table, None)
        if not parts:
            return {}
        rows = sum(request.rows.num_rows for request in parts.values())
        file = StagedFile(number, epoch, CLEARING_TURN, CLEARING, NO_ID, 0, rows)
        self._store(file, parts)
        self._rows.keep(file)
        return {CLEARING: rows}

    def verify(self, owner: LiveOwner, epoch: int, attempts: Attempts) -> Verified:
        """Return the attempts that have staged rows, after finding out that all can be applied. Committer only.

        Raises:
            PenstockError: rows are missing, or cannot be applied; nothing was committed.
        """
        files = self._accepted(owner, epoch, attempts)
        self._refuse_dropped(files)
        # What is decided must be possible: an overflow, say, has to be found out before, not after.
        plan, removes = self._try_out(owner, files)
        if removes and self._guard.settle_removal(owner.record.number):
            plan, _ = self._try_out(owner, files)
        return Verified(tuple(dict.fromkeys(file.attempt for file in files)), plan)

    def roll_forward(self, owner: LiveOwner, verified: Verified | None = None) -> None:
        """Apply what the committed epoch accepted, where it is not applied yet. Committer only.

        `verified` is what `verify` returned in this very step, if it did: the plan still holds.
        """
        record, committer = owner.record, self._table.committer
        if record.accepted:
            if verified is not None and verified.plan is not None:
                committer.commit(verified.plan)
            else:
                files = self._accepted(owner, record.committed, record.accepted)
                for buckets in self._portions(files):
                    committer.commit(committer.plan(self._writes(owner, files, buckets)))
            self._owners.save(owner, replace(record, accepted=(), offsets=self._undo.offsets(owner)))
        self._rows.remove(file for file in self._rows.of(record.number) if file.epoch <= record.committed)

    def discard(self, owner: int) -> None:
        """Remove everything an owner has staged."""
        self._rows.remove(self._rows.of(owner))

    def _accepted(self, owner: LiveOwner, epoch: int, attempts: Container[bytes]) -> list[StagedFile]:
        files = self._rows.of(owner.record.number)
        return [file for file in files if file.epoch == epoch and file.attempt in attempts]

    def _refuse_dropped(self, files: list[StagedFile]) -> None:
        """Refuse rows that have no place any more: the commit would apply less than it names.

        Raises:
            ConflictError: names the partitions, and whose rows these are.
        """
        info = self._table.info
        if not info.partitioned:
            return
        attempts, names = [], set()
        for file in files:
            # Asked without the table's lock: who drops a partition holds it, and waits for this very thread.
            ids = self._rows.partitions(file)
            gone = {number for number in ids if not self._table.has(BucketId(info.table_id, number, 0))}
            if not gone:
                continue
            attempts.append(file.attempt.hex())
            columns = partition_columns(info.schema, info.partitioned_by)
            for bucket, request in self._rows.read(file, self._table.schema).items():
                if bucket.partition_id in gone:
                    names.update(partition_codes(columns, [request.rows.column(str(c.id)) for c in columns])[0])
        if attempts:
            raise ConflictError(
                "partitions were dropped, or expired, after rows had been staged for them; nothing is committed: "
                "begin the epoch again and stage its rows again",
                table=info.path,
                partitions=sorted(names),
                attempts=list(dict.fromkeys(attempts)),
            )

    def _try_out(self, owner: LiveOwner, files: list[StagedFile]) -> tuple[WriteGroup | None, bool]:
        """Return the plan of staged calls, None if it is too large to keep, and whether rows go by it."""
        committer = self._table.committer
        if sum(self._rows.size_bytes(file) for file in files) <= self._together_bytes_max:
            plan = committer.plan(self._writes(owner, files, None))
            return plan, removes_rows(plan)
        removes = False
        for buckets in self._portions(files):
            writes = self._writes(owner, files, buckets)
            if self._may_refuse(writes):
                removes |= removes_rows(committer.plan(writes))
            else:
                # Their rows replace others or are ignored, whatever they are: no plan of them can fail.
                removes |= any(request.deletes is not None for write in writes for request in write.parts.values())
        return None, removes

    def _portions(self, files: list[StagedFile]) -> Iterator[Container[BucketId] | None]:
        """Yield as many buckets at a time as may be held in memory; None for all of them."""
        if sum(self._rows.size_bytes(file) for file in files) <= self._together_bytes_max:
            yield None
            return
        sizes: Counter[BucketId] = Counter()
        for file in files:
            sizes.update(self._rows.sizes(file))
        portion: set[BucketId] = set()
        held = 0
        for bucket, size in sorted(sizes.items()):
            if portion and held + size > self._together_bytes_max:
                yield portion
                portion, held = set(), 0
            portion.add(bucket)
            held += size
        yield portion

    def _writes(
        self, owner: LiveOwner, files: list[StagedFile], buckets: Container[BucketId] | None
    ) -> list[QueuedWrite]:
        found = (self._write(owner, file, buckets) for file in files)
        return [write for write in found if write is not None]

    def _may_refuse(self, writes: Iterable[QueuedWrite]) -> bool:
        """Tell whether a plan may fail: by an overflow, or by a new row that lacks a required value."""
        info = self._table.info
        if info.folds:
            return True
        # Whole rows have every required value since they were staged.
        partial = any(request.columns is not None for write in writes for request in write.parts.values())
        return partial and bool(required_columns(info.schema))

    def _store(self, file: StagedFile, parts: Mapping[BucketId, Request]) -> None:
        try:
            self._rows.write(file, parts)
        except OSError as error:
            raise UnavailableError("the disk refused staged rows; stage them again", error=str(error)) from error

    def _check(self, stamp: OwnerStamp, queued: QueuedWrite) -> None:
        def step() -> None:
            self._guard.locks.check(queued, self._guard.check_write(stamp))

        self._table.committer.run(step)

    def _keep(self, stamp: OwnerStamp, file: StagedFile, schema: TabletSchema) -> None:
        try:
            self._guard.check_write(stamp)
            if self._table.schema.schema_id != schema.schema_id:
                raise UnavailableError("the table was altered while its rows were staged; stage them again")
        except (ConflictError, UnavailableError):
            self._rows.remove([file])
            raise
        self._rows.keep(file)

    def _find_staged(self, column: int) -> LiveOwner | None:
        """Return an owner that has rows of a column staged, None if there is none. Committer only."""
        for owner in self._owners:
            if any(column in self._rows.columns(file) for file in self._rows.of(owner.record.number)):
                return owner
        return None

    def _known(self, stamp: OwnerStamp, call: WriteCall) -> StagedFile | None:
        if call.writer_id == NO_ID:
            return None
        return self._rows.find(stamp.owner, stamp.epoch, call.attempt, (call.writer_id, call.sequence))

    def _write(self, owner: LiveOwner, file: StagedFile, buckets: Container[BucketId] | None) -> QueuedWrite | None:
        """Return what is still to be applied of a staged call, in these buckets or in all."""
        record = owner.record
        stamp = OwnerStamp(record.number, record.fence, file.epoch, file.attempt)
        parts: dict[BucketId, Request] = {}
        for bucket, request in self._rows.read(file, self._table.schema, buckets).items():
            tablet = self._table.committer.tablets.get(bucket)
            if tablet is None:
                if self._table.has(bucket):
                    raise UnavailableError(
                        "the epoch is committed, but a bucket is not led here now; it is finished later", bucket=bucket
                    )
                continue  # its partition was dropped after the commit had been decided, and the rows with it
            mark = tablet.state.owners.staged(record.number)
            if mark is None or (mark.epoch, mark.number) < (file.epoch, file.turn):
                parts[bucket] = replace(self._as_known(request), doubted=self._guard.doubted(stamp, bucket))
        if not parts:
            return None
        first = next(iter(parts.values()))
        size = sum(request.rows.nbytes for request in parts.values())
        return QueuedWrite(
            parts,
            file.rows,
            size,
            first.columns,
            sequence=file.turn,
            shape=self._shape(parts.values()),
            stamp=stamp,
            kind=BatchKind.STAGED_COMMIT,
        )

    def _shape(self, requests: Iterable[Request]) -> object | None:
        """Return what calls have in common that may be planned as one; None for one that may not."""
        if self._table.info.options.aggregate_delete_at_zero is not None:
            return None
        if any(r.deletes is not None or r.retracts is not None or r.clears for r in requests):
            return None
        shapes = {(request.columns, tuple(request.rows.schema.names), request.mode) for request in requests}
        return shapes.pop() if len(shapes) == 1 else None

    def _as_known(self, request: Request) -> Request:
        """Return a request that writes the columns known when it was staged; one added since keeps its values."""
        schema = self._table.schema
        if request.columns is not None or not self._table.info.takes_partial:
            return request
        known = {int(name) for name in request.rows.schema.names} - set(schema.key_columns)
        every = {int(name) for name in schema.user_columns.names} - set(schema.key_columns)
        return request if not known or known == every else replace(request, columns=tuple(sorted(known)))


def _token(call: WriteCall) -> OwnerToken:
    if call.owner is None or call.attempt == NO_ID:
        raise InvalidError("staged rows belong to an attempt of an epoch; pass owner.token(epoch) and attempt=")
    return OwnerToken.from_bytes(call.owner)
