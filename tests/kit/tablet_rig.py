"""One bucket beside its oracle: every write goes to both, every answer is compared.

A write that was not acknowledged before a crash may be there or not, but whole, and only behind
those before it; what a reopened bucket shows counts as acknowledged from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa
from tests.kit.oracle import Key, Oracle, Row
from tests.kit.tablet_writes import ADDED_COLUMN, COLUMNS, KEY, VERSION, TabletWrite, tablet_schema

from penstock.errors import SequenceError
from penstock.index.key_index import KeyIndex
from penstock.log.chunk_cache import ChunkCache
from penstock.log.file_pool import FilePool
from penstock.log.settings import LogSettings
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import NO_OFFSET, OP, PREV, BatchKind, Op
from penstock.model.place.facts import NO_ID, BatchFacts
from penstock.model.table.merge_engine import MergeEngine
from penstock.runtime.disk import Disk
from penstock.tablet.files.bucket_files import BucketFiles
from penstock.tablet.merge.first_row import FirstRow
from penstock.tablet.merge.last_row import LastRow
from penstock.tablet.merge.rule import MergeRule
from penstock.tablet.merge.versioned import Versioned
from penstock.tablet.settings import FsyncMode, TabletSettings
from penstock.tablet.steps.recovery import open_tablet
from penstock.tablet.tablet import Entry
from penstock.tablet.view.span import RowBlock

BUCKET: Final = BucketId(1, 0, 0)
SMALL: Final = TabletSettings(segment_bytes=4096, split_rows_min=5, file_rows_max=100)
"""So small that every step of a long life happens within a few writes."""


class TabletRig:
    """A tablet and its oracle, kept in step."""

    def __init__(
        self,
        disk: Disk,
        index: KeyIndex,
        *,
        merge_engine: MergeEngine = MergeEngine.LAST_ROW,
        settings: TabletSettings = SMALL,
        oracle: Oracle | None = None,
        first_offset: int = 0,
    ) -> None:
        self.disk = disk
        self.index = index
        version = VERSION if merge_engine is MergeEngine.VERSIONED else None
        self.oracle = oracle or Oracle(COLUMNS, (KEY,), merge_engine=merge_engine, version=version, start=first_offset)
        self.settings = settings
        self.acknowledged = self.oracle.end
        self._merge_engine = merge_engine
        self._pending: list[tuple[TabletWrite, int, int]] = []
        self._written: dict[bytes, list[tuple[int, int, int]]] = {}
        self._clock_ms = 0
        self._open()

    def write(self, writes: Sequence[TabletWrite]) -> None:
        """Write a group; when this returns, it is acknowledged."""
        planner = self.tablet.planner()
        entries: list[Entry] = []
        for write in writes:
            plan = planner.plan(write.request(self.tablet.schema))
            start = self.oracle.end
            write.tell(self.oracle)
            assert (plan.base_offset, plan.end_offset) == (start, self.oracle.end), write
            self._pending.append((write, plan.base_offset, plan.end_offset))
            if plan.batch.num_rows or write.writer_id != NO_ID:
                entries.append(
                    (self._facts(write, plan.base_offset, plan.end_offset), plan.batch if plan.batch.num_rows else None)
                )
        if entries:
            self.tablet.log.append(entries)
            self.tablet.log.sync()
            self.tablet.log.keep()
            self.tablet.view = self.tablet.publish(entries, planner.planned)
        if self.settings.fsync is FsyncMode.ALWAYS:
            self.synced()

    def synced(self) -> None:
        """Take it that all that was written is durable; with weaker modes the caller knows when."""
        self._settle(self.oracle.end)

    def refused(self) -> None:
        """Forget the group that was just refused: nothing of it was written."""
        self._settle(self.acknowledged)

    def add_column(self) -> None:
        """Write by the schema that has one more column from now on."""
        if ADDED_COLUMN not in self.oracle.columns:
            self.oracle.add_column(ADDED_COLUMN)
            self.tablet.set_schema(tablet_schema(added=True), self._rule())

    def reopen(self, disk: Disk | None = None, index: KeyIndex | None = None) -> None:
        """Open the bucket as the next process finds it, and settle what became of unacknowledged writes."""
        self.disk, self.index = disk or self.disk, index or self.index
        self._open()
        visible = self.tablet.view.visible
        ends = [self.acknowledged, *(end for _, _, end in self._pending)]
        assert visible in ends, f"visible={visible} is no end of a write, acknowledged={ends[0]} written={ends[1:]}"
        self._settle(visible)

    def check(self, random: Random, *, looks: int = 3) -> None:
        """Compare all of the present and some of the past."""
        view = self.tablet.view
        assert view.visible == self.oracle.end
        self.check_snapshot(view.visible)
        self.check_index()
        self.check_writers()
        self.check_directory()
        for _ in range(looks):
            x, y = sorted(random.randint(view.base, view.visible) for _ in range(2))
            self.check_snapshot(x)
            self.check_changes(x, y)

    def check_snapshot(self, x: int) -> None:
        """Compare the rows at X: each key once, in offset order (I-3)."""
        self.tablet.view.check_readable(x)
        found: dict[Key, Row] = {}
        last = -1
        for block in self.tablet.view.scan(x, self.tablet.schema.user_columns):
            assert block.offsets[0] > last
            assert np.all(np.diff(block.offsets) > 0)
            last = int(block.offsets[-1])
            rows = {(row[KEY],): row for row in block.batch.to_pylist()}
            assert len(rows) == block.batch.num_rows
            assert not rows.keys() & found.keys()
            found |= rows
        assert found == self.oracle.snapshot(x), f"snapshot at x={x}"

    def check_changes(self, x: int, y: int) -> None:
        """Compare the changes [X, Y), and what they make of the snapshot at X (I-4)."""
        view, schema = self.tablet.view, self.tablet.schema
        state = self.oracle.snapshot(x)
        at = x
        for block in view.changes(x, y, schema.storage):
            before = self._before_images(block)
            for offset, row in zip(block.offsets.tolist(), block.batch.to_pylist(), strict=True):
                op, prev = Op(row.pop(OP)), row.pop(PREV)
                expected = self.oracle.change(offset)
                assert (offset, op, prev, (row[KEY],)) == (at, expected.op, expected.prev, expected.key)
                assert before.get(offset) == state.pop((row[KEY],), None), f"before-image of offset={offset}"
                if op is not Op.DELETE:
                    state[row[KEY],] = row
                at += 1
        assert at == y
        assert state == self.oracle.snapshot(y), f"changes from x={x} to y={y}"

    def check_index(self) -> None:
        """Compare what the index says of every key with what is live."""
        expected = self.oracle.snapshot()
        keys = pa.RecordBatch.from_pydict(
            {KEY: pa.array([key for (key,) in sorted({c.key for c in self.oracle.changes})], pa.int64())}
        )
        offsets = self.tablet.live_offsets(self.tablet.schema.encode_keys(keys))
        rows = self.tablet.view.gather(offsets[offsets != NO_OFFSET], self.tablet.schema.user_columns).to_pylist()
        assert {(row[KEY],): row for row in rows} == expected

    def check_writers(self) -> None:
        """Compare where the last batches of each writer are (I-6)."""
        for writer_id, written in self._written.items():
            for sequence, start, end in written[-5:]:
                found = self.tablet.state.writers.find(writer_id, sequence)
                assert found == (sequence, start, end), f"writer={writer_id.hex()} sequence={sequence}"

    def check_directory(self) -> None:
        """Check that each change from the base on is in exactly one batch, whose writer is known."""
        view = self.tablet.view
        directory = view.directory(view.base, view.visible)
        facts = [directory.facts(i) for i in range(len(directory))]
        spans = [(f.base_offset, f.end_offset) for f in facts if f.rows]
        assert all(end == start for (_, end), (start, _) in pairwise(spans))
        if view.base < view.visible:
            assert spans[0][0] <= view.base
            assert spans[-1][1] == view.visible
        for fact in facts:
            written = self._written.get(fact.writer_id, ()) if fact.rows else ()
            assert not written or (fact.sequence, fact.base_offset, fact.end_offset) in written

    def check_compacted(self) -> None:
        """Check that the sealed rows are those that someone can still see, and the files those that hold them (I-5)."""
        self.check_files()
        base, sealed = self.tablet.view.base, self.tablet.log_start
        ends = self.oracle.ends()[: sealed - self.oracle.start]
        kept = sum(1 for at, end in enumerate(ends, self.oracle.start) if at >= base or end >= base)
        assert sum(run.rows.rows for span in self.tablet.state.sealed for run in span.runs) == kept

    def check_files(self) -> None:
        """Check that no file is there that the bucket does not need; whoever holds an older view holds its files."""
        named = {name for entry in self.tablet.state.entries.values() for name in (entry.name, entry.ends) if name}
        listed = self.disk.list(BUCKET.directory())
        assert {name for name in listed if name.startswith(("data", "ends")) or name.endswith(".tmp")} == named

    def _open(self) -> None:
        files = BucketFiles(self.disk, BUCKET, FilePool(self.disk, 8), ChunkCache(1 << 16), LogSettings(block_rows=7))
        schema = tablet_schema(added=ADDED_COLUMN in self.oracle.columns)
        self.tablet = open_tablet(
            files,
            schema,
            rule=self._rule(),
            index=self.index,
            settings=self.settings,
            first_offset=self.oracle.start,
        )

    def _rule(self) -> MergeRule:
        if self._merge_engine is MergeEngine.FIRST_ROW:
            return FirstRow()
        if self._merge_engine is MergeEngine.VERSIONED:
            return Versioned(int(VERSION))
        return LastRow((int(KEY),))

    def _facts(self, write: TabletWrite, start: int, end: int) -> BatchFacts:
        self._clock_ms += 1
        return BatchFacts(
            base_offset=start,
            rows=end - start,
            timestamp_ms=self._clock_ms,
            term=1,
            schema_id=self.tablet.schema.schema_id,
            kind=BatchKind.DATA if end > start else BatchKind.EMPTY,
            writer_id=write.writer_id,
            sequence=write.sequence,
            columns=None if write.columns is None else tuple(int(name) for name in write.columns),
        )

    def _settle(self, end: int) -> None:
        """Take it that what was written up to `end` is there for good, and nothing else."""
        for write, start, stop in self._pending:
            # An empty batch leaves no trace in the offsets: only its writer's state tells whether it is there.
            if write.writer_id != NO_ID and stop <= end and (stop > start or self._remembers(write)):
                self._written.setdefault(write.writer_id, []).append((write.sequence, start, stop))
        self._pending = []
        self.oracle.cut(end)
        self.acknowledged = end

    def _remembers(self, write: TabletWrite) -> bool:
        try:
            return self.tablet.state.writers.find(write.writer_id, write.sequence) is not None
        except SequenceError:
            return True  # others came after it

    def _before_images(self, block: RowBlock) -> dict[int, Any]:
        prev = block.batch.column(PREV).to_numpy()
        replaces = prev != NO_OFFSET
        images = self.tablet.view.gather(prev[replaces], self.tablet.schema.user_columns).to_pylist()
        return dict(zip(block.offsets[replaces].tolist(), images, strict=True))
