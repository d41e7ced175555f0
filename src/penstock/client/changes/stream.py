"""A stream of changes: from a position on, or a snapshot and then every change after its cut.

- Each bucket's changes come in offset order, each once; a position names exactly what was received.
- A bucket that is born while the stream follows is read from its first change on. One whose partition was
  dropped and created again was born, too, and is read after the one before.
- The node protects what is to be read for one TTL after each pull, also of partitions that are dropped
  meanwhile, so a stream that is left alone for longer may find its changes gone; it then says so.
- A node that is away is waited for, ten minutes by default; with a timeout, as long as by any other call.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import pyarrow as pa

from penstock.client.cut.stream_position import SnapshotPosition, StreamPosition
from penstock.client.link.link import Link
from penstock.client.pages.change_pull import ChangePull, constant
from penstock.client.scan.arrow_rows import ArrowRows
from penstock.client.scan.scan import Scan
from penstock.errors import ClosedError, InternalError, InvalidError, UnavailableError
from penstock.model.node.calls import ChangePage
from penstock.model.node.log_state import LogState, dropped_unread
from penstock.model.place.bucket import TableBucket
from penstock.model.place.change import OFFSET, ChangeType
from penstock.model.place.system_columns import BUCKET, CHANGE_TYPE, PARTITION, TIMESTAMP
from penstock.model.table.table import TableInfo
from penstock.model.words.html_table import html_table

WAIT_MS: Final = 250
"""How long one pull waits: also how soon a closed stream, and a new bucket, are noticed."""
HOLD_MS: Final = 10_000
"""How often the changes after a snapshot are protected anew while the snapshot is read."""


@dataclass(frozen=True, slots=True)
class SnapshotPhase:
    """The snapshot that a stream begins with, and when its cut was taken.

    Of one that was taken just now, `births` was the id of the next partition just before.
    """

    scan: Scan
    cut_us: int
    births: int | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """How a stream waits: whether for changes to come, how long for each, and for which new buckets."""

    follow: bool = False
    timeout_ms: int | None = None
    births: bool = False
    only: frozenset[TableBucket] | None = None


class ChangeStream(ArrowRows, Iterator[pa.RecordBatch]):
    """Iterates over changes as record batches: one iteration goes on where the one before ended.

    For one consumer; `close()` from any thread.
    """

    def __init__(
        self,
        link: Link,
        info: TableInfo,
        pull: ChangePull,
        patience: Patience,
        snapshot: SnapshotPhase | None = None,
        *,
        births: int | None = None,
    ) -> None:
        """Read on from where `pull` stands, having seen all partitions of lower ids than `births` (None: unknown)."""
        self._link = link
        self._info = info
        self._database = link.database
        self._pull = pull
        self._patience = patience
        self._snapshot = snapshot
        self._pages: deque[ChangePage] = deque()
        self._reading = threading.Lock()
        self._closing = threading.Event()
        self._looked = self._held = self._link.monotonic()
        self._births = births
        pull.births = births if patience.births else None
        pull.hold()
        pull.begun(self._closing, hurried=patience.timeout_ms is not None)
        # A stream that is forgotten must not hold anything; nor must one that is at its end.
        weakref.finalize(self, pull.release).atexit = False

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the batches."""
        return self._pull.schema

    @property
    def position(self) -> str:
        """Return JSON that names what was received so far; `start=position` goes on after it."""
        phase = self._snapshot
        offsets = {bucket: start for bucket, (start, _) in self._pull.positions.items()}
        snapshot = None if phase is None else SnapshotPosition(phase.scan.resume_token, phase.cut_us)
        return StreamPosition.of(self._database, self._info.table_id, offsets, snapshot, self._births).encode()

    def _all_rows(self) -> Iterator[pa.RecordBatch]:
        if self._patience.follow and self._patience.timeout_ms is None:
            raise InvalidError(
                "the stream follows without an end, so there is no whole of it; iterate over it, or give a timeout",
                table=self._info.path,
            )
        return iter(self)

    def __iter__(self) -> ChangeStream:
        # A reader that iterates while the stream is closed sees its end; one that begins later would take the stream
        # for an empty one.
        if self._closing.is_set():
            raise ClosedError("the stream is closed; open another at its position", table=self._info.path)
        return self

    def __next__(self) -> pa.RecordBatch:
        # Threads that share a stream get each batch once.
        with self._reading:
            try:
                return self._next()
            except BaseException:
                # At its end, or in trouble: what is not going to be read on need not be kept.
                self._pull.release()
                raise

    def _next(self) -> pa.RecordBatch:
        if self._snapshot is not None and not self._closing.is_set():
            batch = self._next_of(self._snapshot)
            if batch is not None:
                return batch
            if self._closing.is_set():
                # Not its end: the position must still name what is left of the snapshot.
                raise StopIteration
            self._snapshot = None
        return self._next_change()

    def close(self) -> None:
        """End the stream: a thread that iterates sees its end; idempotent."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._pull.release()
        if self._snapshot is not None:
            self._snapshot.scan.close()

    def __enter__(self) -> ChangeStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        phase = "closed" if self._closing.is_set() else "changes" if self._snapshot is None else "snapshot"
        return f"<ChangeStream of {self._info.path}, {phase}, {len(self._pull.positions)} buckets>"

    def _repr_html_(self) -> str:
        # The columns, and where it stands: to show changes would be to read them.
        columns = [(field.name, str(field.type)) for field in self.schema]
        stands = [(b.partition, b.bucket, at, end) for b, (at, end) in self._pull.positions.items()]
        return html_table(repr(self), ("column", "type"), columns) + html_table(
            "next", ("partition", "bucket", "offset", "end"), stands
        )

    def _next_of(self, phase: SnapshotPhase) -> pa.RecordBatch | None:
        if self._link.monotonic() - self._held > HOLD_MS / 1000:
            self._held = self._link.monotonic()
            self._pull.hold()
        try:
            batch = next(phase.scan, None)
        except ClosedError:
            if not self._closing.is_set():
                raise
            return None
        if batch is None:
            return None
        bucket = phase.scan.bucket
        made = {
            CHANGE_TYPE: ChangeType.INSERT.value,
            OFFSET: phase.scan.log_offsets[bucket],
            TIMESTAMP: phase.cut_us,
            BUCKET: bucket.bucket,
            PARTITION: bucket.partition,
        }
        arrays = [
            constant(made[field.name], field, batch.num_rows) if field.name in made else batch.column(field.name)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _next_change(self) -> pa.RecordBatch:
        patience = self._patience
        give_up = None if patience.timeout_ms is None else self._link.monotonic() + patience.timeout_ms / 1000
        while not self._closing.is_set():
            if self._pages:
                page = self._pages.popleft()
                self._pull.move(page)
                if page.batch.num_rows:
                    return self._pull.shown(page)
                continue
            try:
                if not self._refill(give_up):
                    break
            except UnavailableError:
                # Closed while it waited for a server that is away: the thread that iterates sees the end.
                if not self._closing.is_set():
                    raise
        raise StopIteration

    def _refill(self, give_up: float | None) -> bool:
        """Pull once; tell whether there is anything, or anything to wait for."""
        self._look_for_partitions()
        unfinished = self._pull.unfinished
        if not unfinished and not self._patience.births:
            return False
        wait_ms = self._wait_ms(give_up)
        if not unfinished:
            self._pull.hold()
            self._closing.wait(wait_ms / 1000)
        elif self._pull_pages(wait_ms):
            return True
        elif not self._patience.follow:
            raise InternalError("the node gave no changes below the end that it named", table=self._info.path)
        return give_up is None or self._link.monotonic() < give_up

    def _wait_ms(self, give_up: float | None) -> int:
        if not self._patience.follow:
            return 0
        if give_up is None:
            return WAIT_MS
        return min(WAIT_MS, max(0, round((give_up - self._link.monotonic()) * 1000)))

    def _pull_pages(self, wait_ms: int) -> bool:
        """Pull once; tell whether there are changes, or more to be looked through for some that pass a filter."""
        pages = self._pull.pull(wait_ms)
        for page in pages:
            if page.batch.num_rows:
                self._pages.append(page)
            else:
                # Nothing is handed out, so this is received as soon as it is known.
                self._pull.move(page)
        searching = any(page.next_offset < page.end for page in pages)
        return bool(self._pages) or searching or bool(pages and not self._patience.follow)

    def _look_for_partitions(self) -> None:
        """Go on from partitions that were dropped, and were read, to those that were born."""
        if not (self._patience.follow and self._info.partitioned):
            return
        if self._link.monotonic() - self._looked < WAIT_MS / 1000:
            return
        self._looked = self._link.monotonic()
        state = self._state(since=self._pull.births or 0)
        if any(not state.has(bucket, at) for bucket, (at, _) in self._pull.positions.items()):
            state = self._state(since=0)
        for bucket, (at, end) in list(self._pull.positions.items()):
            if not state.has(bucket, at):
                self._leave_dropped(state, bucket, at, end)
        if self._patience.births:
            self._begin_born(state)
            self._births = state.births
            stands = {bucket: start for bucket, (start, _) in self._pull.positions.items()}
            self._pull.births = state.awaited(self._info.path, stands, state.births, self._pull.births)

    def _leave_dropped(self, state: LogState, bucket: TableBucket, at: int, end: int | None) -> None:
        """Read a bucket no more that was read to the end at which its partition was dropped; go on with the next life.

        Raises:
            PartitionNotFoundError: it ended before the end that was asked for, or it is not known where.
        """
        gone = state.gone_with(bucket, at)
        if (end is not None and at >= end) or (gone is not None and at < gone.ends[bucket.bucket]):
            return
        if end is not None or gone is None:
            raise dropped_unread(bucket, at, gone)
        self._pull.remove(bucket)
        later = state.unread(self._info.path, {bucket: at}, None)
        for name, start, _ in later:
            self._pull.add(name, start, None)
            return

    def _begin_born(self, state: LogState) -> None:
        """Begin with what was born, in the order of a name's lives: after one that is being read comes the next."""
        only = self._patience.only
        for bucket, start, _ in state.unread(self._info.path, {}, self._births):
            if bucket not in self._pull.positions and (only is None or bucket in only):
                self._pull.add(bucket, start, None)
        for bucket, offsets in state.offsets.items():
            if bucket not in self._pull.positions and (only is None or bucket in only):
                self._pull.add(bucket, bucket.first_offset(offsets.base), None)

    def _state(self, since: int) -> LogState:
        return self._pull.ask(lambda: self._link.node.changes.log_state(self._info.table_id, since=since))
