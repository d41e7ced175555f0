"""A stream of changes: from a position on, or a snapshot and then every change after its cut.

- Each bucket's changes come in offset order, each once; a position names exactly what was received.
- A bucket that is born while the stream follows is read from its first change on. One whose partition was
  dropped and created again was born, too: what was unread of the one before went with it.
- The node protects what is to be read for one TTL after each pull, so a stream that is left alone
  for longer may find its changes gone; it then says so.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import pyarrow as pa

from penstock.client.change_pull import ChangePull, constant
from penstock.client.link import Link
from penstock.client.scan import Scan
from penstock.client.stream_position import SnapshotPosition, StreamPosition
from penstock.errors import ClosedError, InternalError, OffsetOutOfRangeError, PartitionNotFoundError
from penstock.model.bucket import TableBucket
from penstock.model.calls import ChangePage, Offsets
from penstock.model.change import ChangeType
from penstock.model.table import TableInfo

WAIT_MS: Final = 250
"""How long one pull waits: also how soon a closed stream, and a new bucket, are noticed."""
HOLD_MS: Final = 10_000
"""How often the changes after a snapshot are protected anew while the snapshot is read."""


@dataclass(frozen=True, slots=True)
class SnapshotPhase:
    """The snapshot that a stream begins with, and when its cut was taken."""

    scan: Scan
    cut_us: int


@dataclass(frozen=True, slots=True)
class Patience:
    """How a stream waits: whether for changes to come, how long for each, and for which new buckets.

    A `leased` one reads what its lease holds, and loses none of it to a drop.
    """

    follow: bool = False
    timeout_ms: int | None = None
    births: bool = False
    only: frozenset[TableBucket] | None = None
    leased: bool = False


class ChangeStream(Iterator[pa.RecordBatch]):
    """Iterates over changes as record batches: one iteration goes on where the one before ended.

    For one consumer; `close()` from any thread.
    """

    def __init__(
        self, link: Link, info: TableInfo, pull: ChangePull, patience: Patience, snapshot: SnapshotPhase | None = None
    ) -> None:
        self._link = link
        self._info = info
        self._pull = pull
        self._patience = patience
        self._snapshot = snapshot
        self._pages: deque[ChangePage] = deque()
        self._reading = threading.Lock()
        self._closing = threading.Event()
        self._looked = self._held = time.monotonic()
        pull.hold()

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
        return StreamPosition.of(self._info.table_id, offsets, snapshot).encode()

    def __iter__(self) -> ChangeStream:
        # Whoever is at it when the stream is closed sees its end; who begins later would take it for an empty one.
        if self._closing.is_set():
            raise ClosedError("the stream is closed; open another at its position", table=self._info.path)
        return self

    def __next__(self) -> pa.RecordBatch:
        # Threads that share a stream get each batch once.
        with self._reading:
            return self._next()

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
        """End the stream: whoever iterates sees its end; idempotent."""
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

    def _next_of(self, phase: SnapshotPhase) -> pa.RecordBatch | None:
        if time.monotonic() - self._held > HOLD_MS / 1000:
            self._held = time.monotonic()
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
            "_change_type": ChangeType.INSERT.value,
            "_offset": phase.scan.log_offsets[bucket],
            "_timestamp": phase.cut_us,
            "_bucket": bucket.bucket,
            "_partition": bucket.partition,
        }
        arrays = [
            constant(made[field.name], field, batch.num_rows) if field.name in made else batch.column(field.name)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _next_change(self) -> pa.RecordBatch:
        patience = self._patience
        give_up = None if patience.timeout_ms is None else time.monotonic() + patience.timeout_ms / 1000
        while not self._closing.is_set():
            if self._pages:
                page = self._pages.popleft()
                self._pull.move(page)
                if page.batch.num_rows:
                    return self._pull.shown(page)
                continue
            if not self._refill(give_up):
                break
        raise StopIteration

    def _refill(self, give_up: float | None) -> bool:
        """Pull once; tell whether there is anything, or anything to wait for."""
        self._look_for_births()
        unfinished = self._pull.unfinished
        if not unfinished and not self._patience.births:
            return False
        wait_ms = self._wait_ms(give_up)
        if not unfinished:
            self._closing.wait(wait_ms / 1000)
        elif not self._pull_pages(wait_ms) and not self._patience.follow:
            raise InternalError("the node gave no changes below the end that it named", table=self._info.path)
        return bool(self._pages) or give_up is None or time.monotonic() < give_up

    def _wait_ms(self, give_up: float | None) -> int:
        if not self._patience.follow:
            return 0
        if give_up is None:
            return WAIT_MS
        return min(WAIT_MS, max(0, round((give_up - time.monotonic()) * 1000)))

    def _pull_pages(self, wait_ms: int) -> bool:
        try:
            pages = self._pull.pull(wait_ms)
        except (PartitionNotFoundError, OffsetOutOfRangeError):
            # The changes of a bucket may have gone with its partition, unless a lease holds it; the others go on.
            if self._patience.leased or not self._forget_dropped():
                raise
            return True
        self._pages.extend(pages)
        return bool(pages)

    def _look_for_births(self) -> None:
        if self._patience.births and time.monotonic() - self._looked >= WAIT_MS / 1000:
            self._looked = time.monotonic()
            for bucket, offsets in self._known().items():
                if bucket not in self._pull.positions:
                    self._pull.add(bucket, bucket.first_offset(offsets.base), None)

    def _forget_dropped(self) -> bool:
        """Read no more of buckets whose partition was dropped, also if there is one of that name again."""
        there = set(self._link.retry.run(lambda: self._link.node.buckets(self._info.table_id)))
        known = self._known()
        # One that is there without offsets is not led just now; where the stream stands in it stays.
        left = {
            bucket
            for bucket, (at, _) in self._pull.positions.items()
            if bucket in there and (bucket not in known or at >= bucket.first_offset(known[bucket].base))
        }
        dropped = len(left) < len(self._pull.positions)
        self._pull.keep(left)
        return dropped

    def _known(self) -> dict[TableBucket, Offsets]:
        known = self._link.retry.run(lambda: self._link.node.offsets(self._info.table_id))
        return {
            bucket: at for bucket, at in known.items() if self._patience.only is None or bucket in self._patience.only
        }
