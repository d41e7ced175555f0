"""Taking any one sync out of the code loses data or spoils a bucket: shown for each of them.

A *site* is a sync in the code: what is synced, by which function, called by which. The disk leaves
out the syncs of one site; a life with two power losses is searched for one that shows it. So a sync
that does nothing would be found as well: its case fails.
"""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from tests.kit.memory_key_index import MemoryKeyIndex
from tests.kit.tablet_rig import TabletRig
from tests.kit.tablet_writes import RandomWrites, TabletWrite

import penstock
from penstock.errors import CorruptionError
from penstock.model.table.merge_engine import MergeEngine
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.sealing import seal
from penstock.testing.fault_plan import Operation, SimulatedCrash
from penstock.testing.faulty_disk import FaultyDisk

Site = str

SITES: list[Site] = [
    "make_directory in BucketFiles.make_directory of ActiveSegment.__init__",
    "sync in SegmentWriter.create of ActiveSegment.__init__",
    "sync_directory in SegmentWriter.create of ActiveSegment.__init__",
    "sync in SegmentWriter.sync of ActiveSegment.sync",
    "sync in SegmentWriter._cut of SegmentWriter.finish",
    "sync_directory in BucketFiles.sync_names of FoundLog.__init__",
    "sync in write_atomically of cut_segment",
    "sync_directory in write_atomically of cut_segment",
    "sync_directory in BucketFiles.remove_durably of FoundLog.finish",
    "sync in write_data_file of _seal_oldest",
    "sync_directory in write_data_file of _seal_oldest",
    "sync in write_data_file of _write",
    "sync_directory in write_data_file of _write",
    "sync in write_atomically of BucketFiles.write_ends",
    "sync_directory in write_atomically of BucketFiles.write_ends",
    "sync in write_atomically of BucketFiles.write_manifest",
    "sync_directory in write_atomically of BucketFiles.write_manifest",
]

BEYOND_THE_MODEL: set[Site] = {
    # A batch that was cut off again can only come back if the system wrote it out by itself before the cut. The
    # faulty disk writes nothing by itself, so here the sync of the cut changes nothing; on a real disk it does.
    "sync in SegmentWriter._cut of SegmentWriter.append_all",
    "sync in SegmentWriter._cut of SegmentWriter.rollback",
}

# Not by a name in the path: a clone may well be called as the package is.
PACKAGE = Path(penstock.__file__).parent
LIVES_MAX = 1_500
NO_SITE: Site = ""


def site_of(operation: Operation) -> Site:
    """Return the place in the code that asks for this sync, and who asks that place."""
    names: list[str] = []
    frame = sys._getframe(1)
    while frame.f_back is not None and len(names) < 2:
        code = frame.f_code
        file = Path(code.co_filename)
        inside = file.is_relative_to(PACKAGE) and not file.is_relative_to(PACKAGE / "testing")
        if inside and code.co_qualname not in {"BucketFiles._write", "PooledFile.sync"}:
            names.append(code.co_qualname)
        frame = frame.f_back
    return f"{operation.kind} in {' of '.join(names)}"


class Life:
    """A short life with every kind of step, from the first write to the second reopening."""

    def __init__(self, watch: Callable[[Operation], bool]) -> None:
        self.watch = watch
        self.disk = FaultyDisk()
        self.disk.skip_syncs(watch)
        self.index = MemoryKeyIndex(chunk_keys=3)
        self.rig = TabletRig(self.disk, self.index)
        self.writes = RandomWrites(Random(5), MergeEngine.LAST_ROW)

    def run(self) -> None:
        """Live until the end or the crash."""
        tablet = self.rig.tablet
        self.write(2)
        self.write_refused()
        self.write(1)
        seal(tablet, active_too=True)
        checkpoint(tablet, self.index.flush)
        compact(tablet, self.rig.oracle.end)
        self.write(1)
        checkpoint(tablet, self.index.flush)
        self.write(1)
        tablet.roll()
        self.write(1)
        compact(tablet, self.rig.oracle.end)

    def write(self, count: int) -> None:
        """Write groups of two."""
        for _ in range(count):
            self.rig.write([self.writes.next(self.rig.oracle.columns) for _ in range(2)])

    def write_refused(self) -> None:
        """Write a group on a disk that has room for one half of it."""
        group: list[TabletWrite] = []
        while len(group) < 2:
            write = self.writes.next(self.rig.oracle.columns)
            group += [write] if write.kind == "upsert" else []
        self.disk.fail_at(self.disk.operations, errno.ENOSPC, done=0.5)
        with pytest.raises(OSError, match="No space"):
            self.rig.write(group)
        self.rig.refused()

    def reopen(self, disk: FaultyDisk, seed: int) -> None:
        """Open the bucket on what a crash left."""
        self.disk, self.index = disk, self.index.after_crash(seed)
        self.disk.skip_syncs(self.watch)
        self.rig.reopen(self.disk, self.index)
        self.rig.check_snapshot(self.rig.oracle.end)


def live(site: Site, moments: list[int], seed: int) -> set[Site]:
    """Live with two crashes, without the syncs of a site; return the sites of all syncs until the second crash.

    The first crash is at one of the moments, or anywhere.
    """
    random = Random(seed)
    seen: set[Site] = set()

    def skip(operation: Operation) -> bool:
        found = site_of(operation)
        seen.add(found)
        return found == site

    life = Life(skip)
    life.disk.crash_at(random.choice(moments) if moments and random.random() < 0.8 else random.randrange(130))
    with suppress(SimulatedCrash):
        life.run()
    disk = life.disk.after_kill() if random.random() < 0.5 else life.disk.after_power_loss(seed)
    disk.crash_at(random.randrange(12))
    with suppress(SimulatedCrash):
        life.reopen(disk, seed)
        life.write(1)
    if site in {*seen, NO_SITE}:
        life.reopen(disk.after_power_loss(seed + 1), seed)
        life.write(1)
    return seen


def moments_after(site: Site) -> list[int]:
    """Return the operations of an undisturbed life at which the lack of a sync may show: the syncs that follow it."""
    syncs: list[tuple[int, Site]] = []

    def watch(operation: Operation) -> bool:
        syncs.append((operation.number, site_of(operation)))
        return False

    life = Life(watch)
    life.run()
    hits = [place for place, (_, found) in enumerate(syncs) if found == site]
    return [number for hit in hits for number, _ in syncs[hit + 1 : hit + 4]] or [number for number, _ in syncs]


@pytest.fixture
def warnings_of_recovery(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], bool]]:
    """Return a function that tells whether saved ends had to be made anew."""
    caplog.set_level(logging.WARNING, "penstock")
    yield lambda: any("ends" in record.getMessage() for record in caplog.records)
    caplog.clear()


def test_lives_with_all_syncs_are_whole_and_every_sync_is_listed(warnings_of_recovery: Callable[[], bool]) -> None:
    seen: set[Site] = set()
    for seed in range(200):
        print(f"seed={seed}")
        seen |= live(NO_SITE, [], seed)
    assert not warnings_of_recovery()
    assert set(SITES) <= seen <= {*SITES, *BEYOND_THE_MODEL}


@pytest.mark.parametrize("site", SITES)
def test_without_this_sync_a_life_is_spoiled(site: Site, warnings_of_recovery: Callable[[], bool]) -> None:
    moments = moments_after(site)
    for seed in range(LIVES_MAX):
        try:
            live(site, moments, seed)
        except (AssertionError, CorruptionError):
            return
        if warnings_of_recovery():
            return
    pytest.fail(f"no life of {LIVES_MAX} shows that it is needed: {site}")
