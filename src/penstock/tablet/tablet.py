"""One bucket: its log, its index, and the view that readers hold.

Everything here runs in the committer, one call at a time, except reading `view` and `pins`.
A write is planned, made durable by the log, then published: tail, ends, index, and one new view at
once (I-1, I-2). `Standing` says whether the bucket takes writes; reads of what was published go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.stored.group_mark import NO_GROUP
from penstock.codec.stored.manifest import FileEntry, Manifest, SpanEntry
from penstock.errors import BucketFailedError, CorruptionError
from penstock.index.key_index import KeyIndex
from penstock.log.data_file import DataFile
from penstock.log.segment_writer import Entry
from penstock.model.place.bucket import BucketId
from penstock.model.place.facts import NO_ID
from penstock.tablet.files.bucket_files import BucketFiles
from penstock.tablet.files.bucket_log import BucketLog
from penstock.tablet.merge.rule import MergeRule
from penstock.tablet.plan.planner import Planned, Planner
from penstock.tablet.schema import TabletSchema
from penstock.tablet.settings import TabletSettings
from penstock.tablet.snapshots.tablet_snapshots import TabletSnapshots
from penstock.tablet.standing import Standing
from penstock.tablet.state.growing_tail import GrowingTail
from penstock.tablet.state.tablet_state import TabletState
from penstock.tablet.state.writer_state import Applied
from penstock.tablet.view.pins import Pins
from penstock.tablet.view.row_age import RowAge
from penstock.tablet.view.span import Run, Span
from penstock.tablet.view.view import TabletView

__all__ = ["Entry", "Exclusively", "Tablet", "TabletState", "file_name"]

Offsets = npt.NDArray[np.int64]
T = TypeVar("T")


class Exclusively(Protocol):
    """Run a step where no write runs beside it: in the committer."""

    def __call__(self, step: Callable[[], T]) -> T:
        """Run the step and return what it returns."""


def _directly(step: Callable[[], T]) -> T:
    return step()


class Tablet:
    """A bucket that is open. Use `recovery.open_tablet` to get one."""

    def __init__(
        self,
        files: BucketFiles,
        schema: TabletSchema,
        *,
        rule: MergeRule,
        index: KeyIndex,
        settings: TabletSettings,
        state: TabletState,
    ) -> None:
        self.files = files
        self.schema = schema
        self.rule = rule
        self.settings = settings
        self.state = state
        self.pins = Pins(state.base)
        self.snapshots = TabletSnapshots(files, self.pins)
        self.standing = Standing(files.bucket)
        self.log = BucketLog(files, schema, settings, end=state.visible, standing=self.standing)
        self.exclusively: Exclusively = _directly
        self.row_age: RowAge | None = None
        """How long rows stay after their last write; None: for ever."""
        self._index = index
        self._tail: GrowingTail | None = None
        self.view = self._make_view()

    @property
    def bucket(self) -> BucketId:
        """Return the bucket's id."""
        return self.files.bucket

    @property
    def tail_bytes(self) -> int:
        """Return how much memory unsealed rows take, about."""
        closed = sum(closed.bytes for closed in self.state.closed)
        return closed + (self._tail.bytes if self._tail is not None else 0)

    @property
    def tail_rows(self) -> int:
        """Return how many rows are not in a data file yet."""
        return self.view.visible - self.log_start

    @property
    def log_start(self) -> int:
        """Return the offset from which on rows are in segments only."""
        if self.state.closed:
            return self.state.closed[0].run.rows.start
        return self._tail.start if self._tail is not None else self.view.visible

    @property
    def kept_from(self) -> int:
        """Return from where on changes are there; of a truncated log those that are pinned are below the base."""
        spans = self.view.spans
        return self.view.base if self.schema.keyed or not spans else min(self.view.base, spans[0].start)

    def planner(self, now_ms: int | None = None) -> Planner:
        """Return a planner for one group of writes, made now; None if no time is to be taken notice of.

        Raises:
            BucketFailedError: the bucket takes no writes until it is reopened.
        """
        self.standing.check()
        aged = None
        if self.row_age is not None and now_ms is not None:
            aged = self.row_age.aged(self.view, self.state.timestamp_ms, now_ms)
        return Planner(self.view, self.schema, self.rule, self.live_offsets, aged)

    def live_offsets(self, keys: pa.BinaryArray) -> Offsets:
        """Return the offset of each distinct key's live row; a stale index is found out and rebuilt (I-9).

        Raises:
            CorruptionError: a rebuilt index does not fit the log either.
        """
        live = self._index.get_many(self.bucket, keys)
        if not self._are_live(live):
            self.rebuild_index()
            live = self._index.get_many(self.bucket, keys)
            if not self._are_live(live):
                raise CorruptionError("key index does not fit the log, even rebuilt", bucket=self.bucket)
        return live

    def lookup(self, keys: pa.BinaryArray) -> Offsets:
        """Return what the index says now; for readers that hold the publication back meanwhile."""
        return self._index.get_many(self.bucket, keys)

    def lookup_prefix(self, prefix: bytes, limit: int | None = None) -> Offsets:
        """Return the offsets of the live rows whose key starts so, in key order."""
        return self._index.prefix(self.bucket, prefix, limit)[1]

    def sync_log(self) -> None:
        """Make the log durable now, whatever the settings ask. Every step that writes a manifest begins so.

        Raises:
            BucketFailedError: it failed, now or before: what the bucket believes may be more than is durable.
        """
        self.log.sync_now()

    def publish(self, entries: Sequence[Entry], planned: Planned, group: int = NO_GROUP.number) -> TabletView:
        """Take batches that the log has into tail, ends and index; return the view to show.

        The caller sets `view`, together with those of other buckets.

        Raises:
            BucketFailedError: the index failed; the log is durable and a reopened bucket has it all.
        """
        tail = self._tail
        if tail is None:
            tail = self._tail = GrowingTail(self.schema, self.state.visible)
        tail.extend(entries, [plan.batch for plan in planned.plans])
        for facts, _ in entries:
            self.state.timestamp_ms = max(self.state.timestamp_ms, facts.timestamp_ms)
            if facts.writer_id != NO_ID:
                self.state.writers.record(facts.writer_id, Applied(facts.sequence, facts.base_offset, facts.end_offset))
            self.state.owners.record(facts)
        self.state.visible = tail.end
        self.state.group = max(self.state.group, group)
        view = self._make_view()
        try:
            self._end_rows(view, planned)
        except Exception as error:
            self.standing.fail(error)
            raise BucketFailedError(
                "index or ends failed after the log was durable; reopen the bucket", bucket=self.bucket
            ) from error
        return view

    def roll(self) -> None:
        """Finish the active segment; the next write starts another.

        Raises:
            BucketFailedError: the segment could not be finished.
        """
        segment = self.log.finish()
        if segment is None:
            return
        tail = self._tail or GrowingTail(self.schema, self.state.visible)
        self.state.closed = (*self.state.closed, tail.closed(segment))
        self._tail = None
        self.view = self._make_view()

    def set_schema(self, schema: TabletSchema, rule: MergeRule) -> None:
        """Write by another schema from now on."""
        self.roll()
        self.schema = self.log.schema = schema
        self.rule = rule

    def rebuild_index(self) -> None:
        """Make the index anew from the live rows."""
        self._index.drop(self.bucket)
        view = self.view
        for block in view.scan(view.visible, self.schema.key_fields):
            # An applied offset of 0 says that the index is not whole: it is replayed or rebuilt.
            self._index.apply(self.bucket, self.schema.encode_keys(block.batch), block.offsets, applied=0)
        self._index.apply(self.bucket, pa.array([], pa.binary()), np.empty(0, np.int64), applied=view.visible)

    def make_manifest(self, *, sealed: tuple[Span, ...], entries: dict[str, FileEntry], log_start: int) -> Manifest:
        """Return a manifest of these spans and of the rest of the state."""
        spans = tuple(
            SpanEntry(span.start, span.end, tuple(entries[file_name(run)] for run in span.runs)) for span in sealed
        )
        return self.state.manifest(self.bucket, self.files.new_manifest_number(), log_start=log_start, spans=spans)

    def refresh_view(self) -> None:
        """Show spans or base that were swapped."""
        self.view = self._make_view()

    def close(self) -> None:
        """Finish the active segment, unless the bucket has failed; idempotent.

        Raises:
            BucketFailedError: the segment could not be finished.
        """
        if self.standing.takes_writes:
            self.roll()
            if not self.schema.keyed:
                self._note_length()
        self.log.close()
        self.standing.close()

    def abandon(self) -> None:
        """Let go without finishing anything: the bucket's files are about to be removed."""
        self.log.close()
        self.standing.drop()

    def adopt_pins(self, other: Tablet) -> None:
        """Take over the pins of the same bucket, opened before."""
        for holder, offset in other.pins.snapshot().items():
            self.pins.pin(holder, offset, least=self.kept_from)

    def _note_length(self) -> None:
        """Have the index know how long the log of a bucket without keys is, as it does of one with keys."""
        if self._index.applied(self.bucket) != self.view.visible:
            empty = pa.array([], pa.binary()), np.empty(0, np.int64)
            self._index.apply(self.bucket, *empty, applied=self.view.visible)

    def _are_live(self, live: Offsets) -> bool:
        offsets = live[live >= 0]
        if len(offsets) == 0:
            return True
        if int(offsets.max()) >= self.view.visible:
            return False
        try:
            return self.view.locate(offsets).are_live()
        except CorruptionError:
            return False

    def _end_rows(self, view: TabletView, planned: Planned) -> None:
        if not self.schema.keyed:
            return
        ended = np.concatenate([plan.ended for plan in planned.plans])
        ended_at = np.concatenate([plan.ended_at for plan in planned.plans])
        if len(ended):
            for run, asked, rows in view.locate(ended).parts:
                run.ends.store(rows, ended_at[asked], run.rows.rows)
        self._index.apply(self.bucket, planned.index_keys, planned.index_offsets, applied=view.visible)

    def _make_view(self) -> TabletView:
        spans = [*self.state.sealed, *(closed.span for closed in self.state.closed)]
        if self._tail is not None and (tail := self._tail.span()) is not None:
            spans.append(tail)
        return TabletView.of(self.bucket, self.state.base, self.state.visible, tuple(spans))


def file_name(run: Run) -> str:
    """Return the name of the data file that holds a sealed run."""
    assert isinstance(run.rows, DataFile)
    return _name(run.rows.path)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
