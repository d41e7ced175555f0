"""Rows that go some time after their last write, by `row.ttl`: found by their batches' times, and deleted.

All rows of a bucket that are older than an age lie below one offset, so each look reads only what came below it since
the last one. Rows that an open epoch changed wait for its end, and are looked at again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.commit.committer import Uncommitted
from penstock.engine.commit.group import QueuedWrite
from penstock.engine.table.open_table import OpenTable
from penstock.engine.upkeep.maintenance import Maintenance
from penstock.errors import BucketFailedError, ClosedError, CorruptionError, NotFoundError, PenstockError
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import BatchKind
from penstock.runtime.metrics import Counter
from penstock.runtime.steady_clock import SteadyClock
from penstock.tablet.merge.rule import Request
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.view import TabletView

_log = logging.getLogger("penstock")

ROWS_EACH_MAX = 20_000
"""Rows of one step: writers wait for one, and come in between two."""

STEPS_MAX = 50
"""Steps of one bucket in one run; the next run goes on."""

WAITING_INTERVAL_MS = 5_000
"""How often rows that wait for an epoch's end are looked at."""

START_PATIENCE_MS = 10 * 60_000
SILENCE_MS_MAX = 86_400_000
"""A start that finds the last write of a table longer ago than a day, and than rows stay, may have a wrong clock."""


@dataclass(slots=True)
class _Bucket:
    """The state of a bucket whose rows stay `ttl_ms`: below `clean` none is left; when to look `again`."""

    ttl_ms: int
    clean: int = 0
    again_ms: int = 0


@dataclass(slots=True)
class _Seen:
    """The state of a table whose rows expire."""

    buckets: dict[BucketId, _Bucket] = field(default_factory=dict)
    silent: bool | None = None
    """Whether all of it looked too old when it was first looked at."""


class RowExpiry:
    """Deletes the rows of open tables that are older than their `row.ttl`. For one thread."""

    def __init__(
        self,
        catalog: Catalog,
        tables: Callable[[int], OpenTable],
        clock: SteadyClock,
        maintenance: Maintenance,
        expired: Counter,
        *,
        rows_each_max: int = ROWS_EACH_MAX,
        steps_max: int = STEPS_MAX,
    ) -> None:
        """Look after the tables of a catalog, which `tables` opens; `expired` counts the rows that went.

        A run deletes `rows_each_max` rows at a time, `steps_max` times in a bucket.
        """
        self._catalog = catalog
        self._tables = tables
        self._clock = clock
        self._maintenance = maintenance
        self._expired = expired
        self._rows_each_max = rows_each_max
        self._steps_max = steps_max
        self._started_ms, self._started_wall_ms = clock.monotonic_ms(), clock.wall_ms()
        self._seen: dict[int, _Seen] = {}

    def run(self) -> None:
        """Delete what is too old everywhere.

        Raises:
            OSError, PenstockError: what failed first; the other buckets were attended to.
        """
        refused: list[Exception] = []
        tables = self._aging()
        self._seen = {t.info.table_id: self._seen.get(t.info.table_id, _Seen()) for t in tables}
        for table in tables:
            ttl_ms, seen = table.info.options.row_ttl_ms, self._seen[table.info.table_id]
            if ttl_ms is None or self._may_be_misled(table, seen, ttl_ms):
                continue
            for tablet in list(table.committer.tablets.values()):
                known = seen.buckets.get(tablet.bucket)
                if known is None or known.ttl_ms != ttl_ms:
                    known = seen.buckets[tablet.bucket] = _Bucket(ttl_ms)
                try:
                    self._expire(table, tablet, known)
                except (ClosedError, NotFoundError, BucketFailedError):
                    continue  # closed, dropped or failed meanwhile: its state says so
                except (CorruptionError, OSError) as error:
                    # A bucket that is dropped meanwhile takes its files along.
                    if tablet.standing.takes_writes:
                        refused.append(error)
                except PenstockError as error:
                    refused.append(error)
        if refused:
            raise refused[0]

    def _aging(self) -> list[OpenTable]:
        found = []
        for info in self._catalog.tables():
            if "row.ttl" in info.properties:
                # One that cannot be opened says so to its readers and writers.
                with suppress(OSError, PenstockError):
                    found.append(self._tables(info.table_id))
        return found

    def _expire(self, table: OpenTable, tablet: Tablet, known: _Bucket) -> None:
        age, view = tablet.row_age, tablet.view
        if age is None or not tablet.standing.takes_writes:
            return
        end = age.expired(view, tablet.state.timestamp_ms, self._clock.earliest_ms())
        now_ms = self._clock.monotonic_ms()
        if end <= known.clean or now_ms < known.again_ms:
            return
        waiting: _Waiting | None = None
        for steps, (offsets, rows) in enumerate(_live(tablet, view, known.clean, end, self._rows_each_max)):
            if steps == self._steps_max:
                end = int(offsets[0])
                break
            waiting = waiting or _Waiting(table, tablet)
            waits = waiting.mask(offsets, rows)
            if not waits.all():
                chosen = pa.array(~waits)
                gone = _delete(table, tablet, rows.filter(chosen), offsets[~waits])
                self._maintenance.count_expired(table.info.table_id, gone)
                self._expired.inc(gone)
                self._maintenance.relieve(tablet, table)
        if waiting is not None and waiting.first < end:
            end, known.again_ms = waiting.first, now_ms + WAITING_INTERVAL_MS
        known.clean = end

    def _may_be_misled(self, table: OpenTable, seen: _Seen, ttl_ms: int) -> bool:
        """Tell whether to wait: a clock that was wrong at the start would have every row expire at once."""
        if seen.silent is None:
            stamps = [tablet.state.timestamp_ms for tablet in table.committer.tablets.values()]
            newest = max((stamp for stamp in stamps if stamp > 0), default=self._started_wall_ms)
            # What was written since the start was stamped by the clock that it expires by.
            silence_ms = self._clock.earliest_ms() - newest
            seen.silent = newest < self._started_wall_ms and silence_ms > max(ttl_ms, SILENCE_MS_MAX)
            if seen.silent:
                _log.warning(
                    "every row is older than row.ttl; they are deleted in ten minutes, check the clock table=%s",
                    table.info.path,
                )
        return seen.silent and self._clock.monotonic_ms() - self._started_ms < START_PATIENCE_MS


class _Waiting:
    """Tells which rows an open epoch has changed. It is asked only if some of them may have been."""

    def __init__(self, table: OpenTable, tablet: Tablet) -> None:
        self._tablet = tablet
        guard, bucket = table.committer.guard, tablet.bucket
        self._open: list[Uncommitted] = [] if guard is None else table.committer.run(lambda: guard.uncommitted(bucket))
        self._start = min((one.start for one in self._open), default=tablet.view.visible)
        self._changed: pa.Array | None = None
        self.first = tablet.view.visible
        """The offset of the first row that waits."""

    def mask(self, offsets: npt.NDArray[np.int64], rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Tell which rows wait."""
        waits: npt.NDArray[np.bool_] = offsets >= self._start
        if waits.any():
            if self._changed is None:
                self._changed = self._changed_keys()
            keys = self._tablet.schema.encode_keys(rows)
            waits = waits & pc.is_in(keys, value_set=self._changed).to_numpy(zero_copy_only=False)
        if waits.any():
            self.first = min(self.first, int(offsets[waits][0]))
        return waits

    def _changed_keys(self) -> pa.Array:
        view, schema = self._tablet.view, self._tablet.schema
        directory = view.directory(self._start, view.visible)
        theirs = np.zeros(len(directory), np.bool_)
        for one in self._open:
            theirs |= (directory.owner == one.owner) & (directory.epoch > one.above)
        theirs &= (directory.kind == BatchKind.DATA) & (directory.rows > 0)
        found = [pa.array([], pa.binary())]
        for start, end in zip(
            directory.base_offset[theirs].tolist(), directory.end_offset[theirs].tolist(), strict=True
        ):
            for block in view.changes(max(start, self._start), end, schema.key_fields):
                found.append(schema.encode_keys(block.batch))
        return pc.unique(pa.concat_arrays(found))


def _live(
    tablet: Tablet, view: TabletView, start: int, end: int, rows_each_max: int
) -> Iterator[tuple[npt.NDArray[np.int64], pa.RecordBatch]]:
    """Yield the offsets and keys of the rows live now in [start, end), a step's worth at a time."""
    offsets: list[npt.NDArray[np.int64]] = []
    batches: list[pa.RecordBatch] = []
    for block in view.scan(view.visible, tablet.schema.key_fields, start=start):
        inside = int(np.searchsorted(block.offsets, end))
        for first in range(0, inside, rows_each_max):
            last = min(first + rows_each_max, inside)
            offsets.append(block.offsets[first:last])
            batches.append(block.batch.slice(first, last - first))
            if sum(map(len, offsets)) >= rows_each_max:
                yield np.concatenate(offsets), pa.concat_batches(batches)
                offsets, batches = [], []
        if inside < len(block.offsets):
            break
    if offsets:
        yield np.concatenate(offsets), pa.concat_batches(batches)


def _delete(table: OpenTable, tablet: Tablet, rows: pa.RecordBatch, offsets: npt.NDArray[np.int64]) -> int:
    """Delete the rows that are still those at these offsets; return how many."""
    keys = tablet.schema.encode_keys(rows)

    def find() -> QueuedWrite:
        same = tablet.live_offsets(keys) == offsets
        if not same.any():
            return QueuedWrite({}, 0, 0)
        kept, kept_keys = rows.filter(pa.array(same)), keys.filter(pa.array(same))
        request = Request(kept, kept_keys, np.ones(len(kept_keys), np.bool_), exact=True)
        return QueuedWrite({tablet.bucket: request}, len(kept_keys), 0)

    def delete() -> int:
        if table.committer.tablets.get(tablet.bucket) is not tablet:
            return 0  # dropped, or reopened, meanwhile
        write = find()
        if write.parts:
            # Past the locks of owners and what the table does with deletes: it is the server's own.
            table.committer.commit(table.committer.plan([write]))
        return write.rows

    return table.committer.run(delete)
