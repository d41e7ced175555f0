"""Readers beside a writer and the background steps of a bucket: every scan is exact (I-3, I-5).

The steps that the committer runs one at a time are held apart here by a lock. Which steps meet is up
to the threads; what each reader must see is not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TypeVar

import pytest
from tests.kit.memory_key_index import MemoryKeyIndex
from tests.kit.oracle import Key, Row
from tests.kit.tablet_rig import TabletRig
from tests.kit.tablet_writes import KEY, RandomWrites

from penstock.errors import OffsetOutOfRangeError
from penstock.model.table.merge_engine import MergeEngine
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.sealing import seal
from penstock.tablet.view.pins import PinHolder, PinKind
from penstock.testing.faulty_disk import FaultyDisk

T = TypeVar("T")
WRITES = 250


class Busy:
    """A bucket that is written, looked after and read at the same time."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.index = MemoryKeyIndex()
        self.rig = TabletRig(FaultyDisk(), self.index)
        self.rig.tablet.exclusively = self.exclusively
        self.writes = RandomWrites(self.random, MergeEngine.LAST_ROW)
        self.expected: dict[int, dict[Key, Row]] = {0: {}}
        self.done = threading.Event()
        self._committer = threading.RLock()

    def exclusively(self, step: Callable[[], T]) -> T:
        with self._committer:
            return step()

    def write(self) -> None:
        """Write; what a snapshot must show is known before anyone can take it."""
        try:
            for _ in range(WRITES):
                with self._committer:
                    self.rig.write([self.writes.next(self.rig.oracle.columns)])
                    self.expected[self.rig.oracle.end] = self.rig.oracle.snapshot()
        finally:
            self.done.set()

    def look_after(self) -> int:
        """Seal, checkpoint and compact, with no retention; return how often."""
        tablet, rounds = self.rig.tablet, 0
        while not self.done.is_set():
            seal(tablet, active_too=True)
            checkpoint(tablet, self.index.flush)
            compact(tablet, tablet.view.visible)
            rounds += 1
        return rounds

    def read(self, holder: PinHolder) -> int:
        """Pin the present, scan it twice through views of different ages; return how many scans were compared."""
        tablet, scans = self.rig.tablet, 0
        while not self.done.is_set():
            with self._committer:
                view = tablet.view
                x = view.visible
                expected = self.expected[x]
            try:
                tablet.pins.pin(holder, x)
            except OffsetOutOfRangeError:
                continue
            for source in (view, tablet.view):
                source.check_readable(x)
                rows = [row for block in source.scan(x, tablet.schema.user_columns) for row in block.batch.to_pylist()]
                assert len(rows) == len(expected)
                assert {(row[KEY],): row for row in rows} == expected
                scans += 1
            tablet.pins.unpin(holder)
        return scans


@pytest.mark.parametrize("seed", range(3))
def test_every_scan_beside_writes_and_compactions_is_exact(seed: int) -> None:
    busy = Busy(seed)
    with ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(busy.read, PinHolder(PinKind.READER, str(number))) for number in range(2)]
        background = threads.submit(busy.look_after)
        threads.submit(busy.write).result()
        scans = [reader.result() for reader in readers]
        rounds = background.result()

    assert min(scans) > 0
    assert rounds > 0
    busy.rig.check(Random(seed))


def test_file_outlives_its_replacement_for_the_view_that_holds_it_and_then_goes() -> None:
    rig = TabletRig(FaultyDisk(), MemoryKeyIndex())
    writes = RandomWrites(Random(3), MergeEngine.LAST_ROW)
    for _ in range(6):
        rig.write([writes.next(rig.oracle.columns)])
    seal(rig.tablet, active_too=True)
    checkpoint(rig.tablet, rig.index.flush)
    held, x = rig.tablet.view, rig.oracle.end
    expected = rig.oracle.snapshot(x)
    for _ in range(6):
        rig.write([writes.next(rig.oracle.columns)])
    seal(rig.tablet, active_too=True)
    checkpoint(rig.tablet, rig.index.flush)
    compact(rig.tablet, rig.oracle.end)

    rows = [row for block in held.scan(x, rig.tablet.schema.user_columns) for row in block.batch.to_pylist()]
    assert {(row[KEY],): row for row in rows} == expected

    del held
    seal(rig.tablet)
    rig.check_compacted()
