"""A pipelined writer: rows are taken at once, sent in batches, and settled by `flush`.

- Order is kept: what was handed over earlier is applied earlier.
- Memory is bounded: with `QUEUE_BATCHES_MAX` batches waiting, the next call waits too.
- What is large is split. Each batch is one call under this writer's next sequence, so sending it again does no harm.
- The first failure ends the writer: every later call raises it, nothing after it is applied.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from penstock.client.hold.owner import AttemptId, OwnerLike, attempt_bytes, owner_token
from penstock.client.ingest.arrow_source import is_row
from penstock.client.link.link import Link
from penstock.client.link.writer_identity import WriterIdentity
from penstock.client.write.requests import WriteRequests
from penstock.errors import ClosedError, InvalidError, PenstockError, UnsupportedError
from penstock.model.node.calls import WriteCall, WriteResult
from penstock.model.node.facets.tables import Writes
from penstock.model.node.owner import AttemptEnd
from penstock.model.place.facts import NO_ID
from penstock.model.schema.agg_mode import AggModeLike
from penstock.model.table.table import TableInfo
from penstock.model.words.names import name_list
from penstock.model.words.quantity import parse_bytes

QUEUE_BATCHES_MAX: Final = 8
BOUND_MAX: Final = 10**9
CALL_BYTES_MAX: Final = 16 << 20
"""What is handed over at once and is larger becomes several calls, unless larger batches were asked for."""

SENT_AHEAD_MAX: Final = 2
"""How many batches are on their way at a time: the next travels while one is written."""


@dataclass(slots=True)
class _Batch:
    """Either calls or single rows, all of one kind, that will be sent as one call."""

    kind: object
    build: Callable[[list[Mapping[str, Any]]], WriteCall]
    opened: float
    calls: list[WriteCall] = field(default_factory=list)
    loose: list[Mapping[str, Any]] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0

    def add(self, taken: WriteCall | Mapping[str, Any]) -> None:
        if isinstance(taken, Mapping):
            self.loose.append(taken)
            self.rows += 1
        else:
            self.calls.append(taken)
            self.rows += taken.batch.num_rows
            self.bytes += taken.batch.nbytes

    def call(self) -> WriteCall:
        # Single rows are converted together: one by one they would cost an array per column each.
        calls = [self.build(self.loose)] if self.loose else self.calls
        return replace(calls[0], batch=pa.concat_batches([call.batch for call in calls]))


def _check_unexpecting(expect: object) -> None:
    if expect is not None:
        raise UnsupportedError("a writer sends rows later, so expect= does not go with it; use upsert of the table")


def _is_number(value: object, *, least: int) -> bool:
    # NaN is neither below nor above; it is no bound.
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= BOUND_MAX


class Writer:
    """Writes to one table in the background. Thread-safe; a context manager that flushes on exit."""

    def __init__(
        self,
        link: Link,
        info: TableInfo,
        *,
        batch_rows: int = 10_000,
        batch_bytes: int | str = "4MB",
        linger_ms: int = 10,
        owner: OwnerLike | None = None,
        attempt: AttemptId | None = None,
    ) -> None:
        if not _is_number(batch_rows, least=1) or not _is_number(linger_ms, least=0):
            raise InvalidError(
                "a writer's bounds are positive numbers", batch_rows=repr(batch_rows), linger_ms=repr(linger_ms)
            )
        self._link = link
        self._path = info.path
        self._requests = WriteRequests(info)
        self._batch_rows = batch_rows
        self._batch_bytes = parse_bytes(batch_bytes)
        self._key = info.schema.primary_key
        self._linger = linger_ms / 1000
        self._owner = owner_token(owner)
        self._attempt = attempt_bytes(attempt)
        self._attempt_end: AttemptEnd | None = None
        self._cut_short = False
        self._identity = WriterIdentity()
        # Everything below is guarded by this condition, which is notified at every change.
        self._changed = threading.Condition()
        self._open: _Batch | None = None
        self._sealed: deque[_Batch] = deque()
        self._sending = False
        self._closed = False
        self._failure: BaseException | None = None
        self._acknowledged = 0
        self._meter = link.meter("write to", info.path)
        self._thread = threading.Thread(target=self._run, name=f"penstock-writer-{self._path}", daemon=True)
        self._thread.start()

    @property
    def acknowledged_rows(self) -> int:
        """Return the rows that are durable and visible so far."""
        return self._acknowledged

    @property
    def attempt_end(self) -> AttemptEnd | None:
        """Return how the attempt ended, once the writer is closed: it won, or another had."""
        return self._attempt_end

    def upsert(
        self,
        data: object,
        columns: Iterable[str] | None = None,
        agg_mode: AggModeLike = "accumulate",
        *,
        expect: None = None,
    ) -> None:
        """Take rows to upsert; a single row may be a dict. Arrays are read later: leave them as they are.

        Raises:
            UnsupportedError: `expect` is given; it goes with `Table.upsert`, which tells what was there.
            InvalidError: the data does not fit; the writer goes on without it. Single rows are looked
                at when their batch is sent.
            PenstockError: the first failure of this writer.
        """
        _check_unexpecting(expect)
        named = None if columns is None else tuple(name_list(columns))
        self._take(
            data,
            ("upsert", named, agg_mode),
            lambda rows: self._requests.upsert(rows, named, agg_mode, self._owner, self._attempt),
        )

    def delete(self, keys: object, columns: Iterable[str] | None = None, *, expect: None = None) -> None:
        """Take keys whose rows go, or whose columns named become null.

        Raises:
            UnsupportedError: `expect` is given; it goes with `Table.delete`, which tells what was there.
            InvalidError: the keys do not fit; the writer goes on without them.
            PenstockError: the first failure of this writer.
        """
        _check_unexpecting(expect)
        named = None if columns is None else tuple(name_list(columns))
        self._take(keys, ("delete", named), lambda rows: self._requests.delete(rows, named, self._owner, self._attempt))

    def append(self, data: object) -> None:
        """Take rows to append to a log table.

        Raises:
            InvalidError: the data does not fit; the writer goes on without it.
            PenstockError: the first failure of this writer.
        """
        self._take(data, ("append",), lambda rows: self._requests.append(rows, self._owner, self._attempt))

    def flush(self) -> None:
        """Wait until everything taken so far is durable and visible.

        Raises:
            PenstockError: the first failure of this writer; what followed it was not applied.
        """
        with self._changed:
            self._check()
            self._drain()

    def close(self) -> None:
        """Flush, then end the writer; idempotent.

        Raises:
            PenstockError: the first failure of this writer, also if it was raised before.
        """
        with self._changed:
            if self._closed:
                return
            try:
                self._check()
                self._drain()
                self._end_attempt()
            finally:
                self._closed = True
                self._changed.notify_all()
                if self._meter is not None:
                    self._meter.end(whole=False)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What was cut short has not ended; its rows are the attempt's all the same, and go with it.
        self._cut_short = error is not None
        try:
            self.close()
        except Exception as failure:
            # The block's own failure came first and says more; that rows are missing is still to be known.
            if error is None:
                raise
            if failure is not error:
                error.add_note(f"the writer of {self._path} failed, too: {failure}")

    def __repr__(self) -> str:
        state = "closed" if self._closed else "failed" if self._failure else "open"
        return f"<Writer of {self._path}, {state}, {self._acknowledged} rows acknowledged>"

    def _end_attempt(self) -> None:
        if self._attempt == NO_ID or self._owner is None or self._cut_short:
            return
        owner, attempt, rows = self._owner, self._attempt, self._acknowledged
        self._attempt_end = self._link.retry.run(lambda: self._link.node.owners.end_attempt(owner, attempt, rows))

    def _take(self, data: object, kind: tuple[object, ...], build: Callable[[Any], WriteCall]) -> None:
        taken: WriteCall | Mapping[str, Any]
        if isinstance(data, Mapping) and is_row(data, self._key):
            taken = dict(data)
            kind = (*kind, frozenset(taken))
        else:
            taken = build(data)
            kind = (*kind, *taken.batch.schema.names)
            for part in self._split(taken):
                self._add(part, kind, build)
            return
        self._add(taken, kind, build)

    def _split(self, call: WriteCall) -> Iterator[WriteCall]:
        """Yield a call as several that are small enough, as far as rows can be told apart."""
        rows = call.batch.num_rows
        # Twice as much is left whole: a batch is as large when its last rows came together.
        count = max(1, -(-call.batch.nbytes // (2 * max(self._batch_bytes, CALL_BYTES_MAX))))
        step = max(1, -(-rows // count))
        for start in range(0, rows, step):
            yield call if count == 1 else replace(call, batch=call.batch.slice(start, step))

    def _add(
        self, taken: WriteCall | Mapping[str, Any], kind: tuple[object, ...], build: Callable[[Any], WriteCall]
    ) -> None:
        with self._changed:
            self._wait_for_room(kind)
            if self._open is None:
                self._open = _Batch(kind, build, opened=time.monotonic())
                self._changed.notify_all()
            self._open.add(taken)
            if self._open.rows >= self._batch_rows or self._open.bytes >= self._batch_bytes:
                self._seal()

    def _wait_for_room(self, kind: object) -> None:
        self._check()
        while True:
            if self._open is not None and self._open.kind != kind:
                self._seal()
            if len(self._sealed) < QUEUE_BATCHES_MAX:
                return
            self._changed.wait()
            self._check()

    def _check(self) -> None:
        # Also asks the link, for a forked child has no thread that would ever send.
        _ = self._link.node
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise ClosedError("the writer is closed; open another", table=str(self._path))

    def _seal(self) -> None:
        if self._open is not None:
            self._sealed.append(self._open)
            self._open = None
            self._changed.notify_all()

    def _drain(self) -> None:
        self._seal()
        while self._sealed or self._sending:
            self._changed.wait()
            self._check()

    def _run(self) -> None:
        try:
            while (batch := self._next()) is not None:
                *ahead, last = self._split(batch.call())
                for call in ahead:
                    self._send(self._numbered(call))
                for call in self._send_ahead(self._numbered(last)):
                    self._send(call)
        except BaseException as failure:  # noqa: BLE001 - it is raised again in the thread that waits for this one
            with self._changed:
                self._failure = failure
                self._changed.notify_all()

    def _next(self) -> _Batch | None:
        with self._changed:
            self._sending = False
            self._changed.notify_all()
            while not self._sealed:
                if self._open is None:
                    if self._closed:
                        return None
                    self._changed.wait()
                elif (left := self._open.opened + self._linger - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    self._seal()
            self._sending = True
            self._changed.notify_all()
            return self._sealed.popleft()

    def _next_at_hand(self) -> _Batch | None:
        """Return the next batch if it is full; one of single rows is not, for they may not fit."""
        with self._changed:
            if not self._sealed or self._sealed[0].loose:
                return None
            self._changed.notify_all()
            return self._sealed.popleft()

    def _send_ahead(self, first: WriteCall) -> Sequence[WriteCall]:
        """Send a batch, and others behind it while it is on its way; return those that were not acknowledged."""
        sent = deque([first])
        # What fails is sent again by itself, and fails again if it is not worth retrying. The server does
        # nothing that was sent behind it.
        with suppress(PenstockError):
            writes = self._link.node.tables.write_stream()
            if writes is not None:
                with closing(writes):
                    self._converse(writes, sent)
        return sent

    def _converse(self, writes: Writes, sent: deque[WriteCall]) -> None:
        writes.send(sent[0])
        while sent:
            if len(sent) < SENT_AHEAD_MAX and (batch := self._next_at_hand()) is not None:
                sent.append(self._numbered(batch.call(), ahead=len(sent)))
                writes.send(sent[-1])
            else:
                self._acknowledge(writes.result())
                sent.popleft()

    def _send(self, call: WriteCall) -> None:
        self._acknowledge(self._link.retry.run(lambda: self._link.node.tables.write(call)))

    def _numbered(self, call: WriteCall, *, ahead: int = 0) -> WriteCall:
        return replace(call, writer_id=self._identity.writer_id, sequence=self._identity.sequence + ahead)

    def _acknowledge(self, result: WriteResult) -> None:
        self._identity.sequence += 1
        self._acknowledged += result.rows
        if self._meter is not None:
            self._meter.add(result.rows)
