"""The process dies, or the power fails, at every disk operation of a scripted life of a bucket.

Afterwards every acknowledged write is there, every other wholly or not at all, offsets have no gap,
answers are exact, and writing goes on. Each case prints its seed; the case's id replays it.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from random import Random

import pytest
from tests.kit.memory_key_index import MemoryKeyIndex
from tests.kit.tablet_rig import TabletRig
from tests.kit.tablet_writes import RandomWrites

from penstock.model.table.merge_engine import MergeEngine
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.sealing import seal
from penstock.testing.fault_plan import Operation, SimulatedCrash
from penstock.testing.faulty_disk import FaultyDisk

SHARDS = 8


class Script:
    """The same life on any disk, until it is over or the process dies."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.index = MemoryKeyIndex(chunk_keys=3)
        self.rig = TabletRig(disk, self.index)
        self.writes = RandomWrites(Random(1), MergeEngine.LAST_ROW)

    def run(self) -> None:
        for round_ in range(2):
            self._write(3)
            seal(self.rig.tablet, active_too=round_ == 0)
            self._write(2)
            checkpoint(self.rig.tablet, self.index.flush)
            self._write(1)
            compact(self.rig.tablet, self.rig.oracle.end)
        self.rig.add_column()
        self._write(1)
        seal(self.rig.tablet, active_too=True)
        self.rig.tablet.close()

    def _write(self, count: int) -> None:
        for _ in range(count):
            self.rig.write([self.writes.next(self.rig.oracle.columns) for _ in range(2)])


def run_until_crash(disk: FaultyDisk) -> Script | None:
    """Return the script as the crash left it, None if the process died before the bucket was open."""
    script = None
    try:
        script = Script(disk)
        script.run()
    except SimulatedCrash:
        pass
    return script


def operations() -> list[Operation]:
    """Return the operations of the whole life, in order."""
    found: list[Operation] = []

    def note(operation: Operation) -> bool:
        found.append(operation)
        return False

    disk = FaultyDisk()
    disk.fail_when(note, errno.EIO)
    run_until_crash(disk)
    return found


def moments(shard: int, *dones: float) -> Iterator[tuple[int, float]]:
    """Yield this shard's operations, each with how much of it is done; half of one makes sense for appends only."""
    for operation in operations()[shard::SHARDS]:
        for done in (*dones, *((0.5,) if operation.kind in {"append", "make_directory"} else ())):
            yield operation.number, done


def go_on(script: Script, disk: FaultyDisk, seed: int) -> None:
    """Reopen on what the crash left, compare, write on, reopen again."""
    random = Random(seed)
    rig = script.rig
    rig.reopen(disk, script.index.after_crash(seed))
    rig.check(random, looks=2)
    for _ in range(2):
        rig.write([script.writes.next(rig.oracle.columns)])
    rig.reopen(disk.after_power_loss(seed))
    rig.check(random, looks=1)


@pytest.fixture(autouse=True)
def saved_ends_are_usable(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A crash never spoils what a checkpoint has saved: no ends are made anew."""
    caplog.set_level(logging.WARNING, "penstock")
    yield
    assert [r.getMessage() for r in caplog.records if "ends" in r.getMessage()] == []


@pytest.mark.parametrize("shard", range(SHARDS))
def test_killed_at_every_operation_nothing_acknowledged_is_lost(shard: int) -> None:
    # An operation that was done is the one after it before it began.
    for number, done in moments(shard, 0.0):
        print(f"operation={number} done={done}")
        disk = FaultyDisk()
        disk.crash_at(number, done=done)
        script = run_until_crash(disk)
        assert script is not None
        go_on(script, disk.after_kill(), seed=number)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_power_lost_at_every_operation_nothing_acknowledged_is_lost(shard: int) -> None:
    losses = 0
    for number, done in moments(shard, 0.0, 1.0):
        seed = 3 * number + int(2 * done)
        print(f"operation={number} done={done} seed={seed}")
        disk = FaultyDisk()
        disk.crash_at(number, done=done)
        script = run_until_crash(disk)
        assert script is not None
        go_on(script, disk.after_power_loss(seed), seed)
        losses += 2  # the second one after going on
    assert SHARDS * losses > 500


@pytest.mark.parametrize("shard", range(SHARDS))
def test_power_lost_again_while_reopening_nothing_acknowledged_is_lost(shard: int) -> None:
    """The second loss strikes within recovery, or in the first writes after it."""
    total = len(operations())
    for seed in range(shard, 160, SHARDS):
        random = Random(seed)
        number, again, done = random.randrange(total), random.randrange(14), random.choice((0.0, 0.5, 1.0))
        print(f"seed={seed} operation={number} then={again} done={done}")
        disk = FaultyDisk()
        disk.crash_at(number, done=random.choice((0.0, 1.0)))
        script = run_until_crash(disk)
        assert script is not None
        disk, index = disk.after_power_loss(seed), script.index.after_crash(seed)
        disk.crash_at(again, done=done)
        try:
            script.rig.reopen(disk, index)
            for _ in range(3):
                script.rig.write([script.writes.next(script.rig.oracle.columns)])
        except SimulatedCrash:
            pass
        script.index = index
        go_on(script, disk.after_power_loss(seed + 1), seed)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(12))
def test_power_lost_in_many_ways_nothing_acknowledged_is_lost(shard: int) -> None:
    total = len(operations())
    for seed in range(1_000 + 200 * shard, 1_200 + 200 * shard):
        random = Random(seed)
        print(f"seed={seed}")
        disk = FaultyDisk()
        disk.crash_at(random.randrange(total), done=random.choice((0.0, 0.5, 1.0)))
        script = run_until_crash(disk)
        assert script is not None
        go_on(script, disk.after_power_loss(seed), seed)
