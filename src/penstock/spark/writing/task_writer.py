"""One task's write: Spark's batches in, a few large calls out, and an end that says how much it was.

An attempt is one run of one task. Its uuid is made here, in the run: Spark's own attempt numbers begin
again in every driver. The first attempt to end wins; a late one is told who did, and says so in its place.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.hold.renewal import Renewal
from penstock.client.link.link import Link
from penstock.client.link.writer_identity import WriterIdentity
from penstock.client.write.requests import WriteRequests
from penstock.model.node.calls import Operation, WriteCall, WriteResult
from penstock.model.node.owner import AttemptEnd
from penstock.model.place.change import ChangeType
from penstock.model.place.system_columns import CHANGE_TYPE
from penstock.spark.session.links import link_for
from penstock.spark.session.refusal import REFUSALS
from penstock.spark.writing.job_epoch import JobEpoch, Written
from penstock.spark.writing.write_plan import WritePlan

CALL_ROWS: Final = 100_000
CALL_BYTES: Final = 8 << 20
CALLS_AHEAD: Final = 2


@dataclass(frozen=True)
class TaskWriter:
    """Writes the rows of one task in an epoch, visible at once or staged. Picklable."""

    plan: WritePlan
    epoch: JobEpoch
    staged: bool
    call_rows: int = CALL_ROWS

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write all rows and end the attempt; return what counts, or what was refused for good.

        Raises:
            ConflictError: another try of the task, or another holder, has taken over.
            UnavailableError: the server is away for longer than `retryTimeout`.
        """
        left = iter(batches)
        try:
            return self._write(left)
        except REFUSALS as error:
            for _ in left:
                pass  # Spark hands a task all of its rows
            return Written(b"", 0, refusal=error)

    def _write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        link = link_for(self.plan.options)
        token, attempt = self.epoch.token, uuid.uuid4().bytes
        rows, images = 0, [0, 0, 0, 0]
        with Renewal.of_owner(link, token, self.epoch.ttl_ms), Calls(link, staged=self.staged) as calls:
            for batch in joined(batches, self.call_rows):
                if self.plan.folds_changes:
                    images = [sum(pair) for pair in zip(images, self._images(batch), strict=True)]
                calls.send(self._call(batch, attempt))
                rows += batch.num_rows
        if self.staged or rows == 0:
            end = AttemptEnd(attempt, rows)
        else:
            end = link.retry.run(lambda: link.node.owners.end_attempt(token, attempt, rows))
        before, after, deletes, without = images
        return Written(end.attempt, end.rows, before, after, deletes, without)

    def _images(self, batch: pa.RecordBatch) -> tuple[int, int, int, int]:
        """Return how many images before and after updates there are, how many deletes, and how many without a value."""
        kinds = batch.column(CHANGE_TYPE)
        before, after = (_count(kinds, kind) for kind in (ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER))
        deleted = batch.filter(pc.fill_null(pc.equal(kinds, ChangeType.DELETE.value), False))
        without = pa.array([True] * deleted.num_rows, pa.bool_())
        keys = {CHANGE_TYPE, *self.plan.info.primary_key}
        for source in (source for source, name in self.plan.sent if name not in keys):
            without = pc.and_(without, deleted.column(source).is_null())
        return before, after, deleted.num_rows, int(pc.sum(without).as_py() or 0)

    def _call(self, batch: pa.RecordBatch, attempt: bytes) -> WriteCall:
        plan, token = self.plan, self.epoch.token
        columns = {name: batch.column(source) for source, name in plan.sent}
        if plan.folds_changes:
            # A row's image before an update may have another key, and be with another task: the server
            # would look for it in vain. That there are such images, and that not all deletes come without theirs,
            # is asked when the job commits.
            columns[CHANGE_TYPE] = _apart(columns[CHANGE_TYPE])
        data = pa.table(columns)
        requests = WriteRequests(plan.info)
        if plan.operation is Operation.UPSERT:
            return requests.upsert(data, plan.columns, plan.agg_mode, token, attempt)
        if plan.operation is Operation.DELETE:
            return requests.delete(data, plan.columns, token, attempt)
        if plan.operation is Operation.APPEND:
            return requests.append(data, token, attempt)
        return requests.apply_changes(data, token, attempt, plan.columns)


class Calls:
    """Sends calls in order on a thread, so that the next is made while one is under way. A context manager.

    A call that fails raises at the next one, or at the end.
    """

    def __init__(self, link: Link, *, staged: bool) -> None:
        self._link = link
        self._staged = staged
        self._sender = ThreadPoolExecutor(1, "penstock-task")
        self._identity = WriterIdentity()
        self._under_way: deque[Future[WriteResult]] = deque()

    def send(self, call: WriteCall) -> None:
        """Take the next call; wait while too many are under way."""
        identity = self._identity
        sent = replace(call, writer_id=identity.writer_id, sequence=identity.sequence)
        identity.sequence += 1
        self._settle(CALLS_AHEAD - 1)
        self._under_way.append(self._sender.submit(self._send, sent))

    def __enter__(self) -> Calls:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._settle(0)
        finally:
            self._sender.shutdown(wait=True, cancel_futures=True)

    def _settle(self, left: int) -> None:
        while len(self._under_way) > left:
            self._under_way.popleft().result()

    def _send(self, call: WriteCall) -> WriteResult:
        node = self._link.node
        send = node.owners.stage if self._staged else node.tables.write
        return self._link.retry.run(lambda: send(call))


def joined(batches: Iterable[pa.RecordBatch], call_rows: int) -> Iterator[pa.RecordBatch]:
    """Join Spark's batches to calls of a good size, and cut what is larger."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for piece in _pieces(batch):
            if held and (rows + piece.num_rows > call_rows or size + piece.nbytes > CALL_BYTES):
                yield pa.concat_batches(held)
                held, rows, size = [], 0, 0
            held.append(piece)
            rows += piece.num_rows
            size += piece.nbytes
    if rows:
        yield pa.concat_batches(held)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    parts = max(1, -(-batch.nbytes // CALL_BYTES))
    step = max(1, -(-batch.num_rows // parts))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _count(kinds: pa.Array, kind: ChangeType) -> int:
    return int(pc.sum(pc.equal(kinds, kind.value)).as_py() or 0)


def _apart(kinds: pa.Array) -> pa.Array:
    """Return kinds that say the same to an aggregate, and are looked at one by one."""
    kinds = pc.if_else(pc.equal(kinds, ChangeType.UPDATE_AFTER.value), ChangeType.INSERT.value, kinds)
    return pc.if_else(pc.equal(kinds, ChangeType.DELETE.value), ChangeType.UPDATE_BEFORE.value, kinds)
