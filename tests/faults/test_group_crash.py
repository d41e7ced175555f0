"""A call over several buckets is there whole or not at all: after a crash, and after an error of the disk."""

from __future__ import annotations

import contextlib
import errno
from random import Random

import pytest
from tests.kit.grouped_life import GroupedLife
from tests.kit.memory_key_index import MemoryKeyIndex

from penstock.errors import CorruptionError, InternalError, PenstockError
from penstock.log.segment import read_segment
from penstock.model.place.bucket import BucketId
from penstock.tablet.settings import FsyncMode
from penstock.testing.fault_plan import SimulatedCrash


def live(life: GroupedLife) -> None:
    """Live until the end or the first error."""
    with contextlib.suppress(PenstockError, OSError, SimulatedCrash):
        for step in life.steps():
            step()
            life.check()


def operations() -> tuple[int, int]:
    """Return how many operations come before the first step of a life, and until its end."""
    life = GroupedLife()
    first = life.disk.operations
    live(life)
    life.close()
    return first, life.disk.operations


def reopen(life: GroupedLife, seed: int, *, power_loss: bool) -> None:
    life.crash(seed, power_loss=power_loss)
    life.open()
    life.check()


def crash_at(number: int, seed: int, *, power_loss: bool, fsync: FsyncMode = FsyncMode.ALWAYS) -> None:
    """Live, crash at an operation, crash while the table is opened again, and go on."""
    life = GroupedLife(fsync=fsync)
    life.disk.crash_at(number, done=Random(seed).choice((0.0, 0.3, 0.7, 1.0)))
    live(life)
    life.crash(seed, power_loss=power_loss)
    life.disk.crash_at(seed % 23)
    with contextlib.suppress(SimulatedCrash):
        life.open()
    reopen(life, seed, power_loss=power_loss)
    life.upsert_some()
    life.upsert()
    reopen(life, seed, power_loss=power_loss)
    life.close()


@pytest.mark.parametrize("power_loss", [False, True], ids=["kill", "power loss"])
def test_calls_are_whole_after_a_crash_at_many_moments(power_loss: bool) -> None:
    first, end = operations()
    for number in range(first, end, 11):
        print(f"number={number}")
        crash_at(number, number, power_loss=power_loss)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("power_loss", [False, True], ids=["kill", "power loss"])
def test_calls_are_whole_after_a_crash_at_every_moment(power_loss: bool) -> None:
    first, end = operations()
    for number in range(first, end):
        for seed in range(10):
            print(f"number={number} seed={seed}")
            crash_at(number, seed, power_loss=power_loss)


def lose_last_batch(life: GroupedLife, bucket: int) -> None:
    """Cut the newest segment of a bucket before its last batch, as if that had never been written."""
    directory = BucketId(life.table.info.table_id, 1, bucket).directory()
    path = max(path for path in life.disk.paths() if path.startswith(f"{directory}/segment"))
    segment = read_segment(life.disk, path, last=True, durable_end=None)
    assert segment is not None
    life.disk.truncate_file(path, segment.positions[-1])


def test_last_call_that_a_bucket_lacks_is_cut_off_and_one_that_others_follow_is_corruption() -> None:
    for later in (0, 1):
        life = GroupedLife(buckets=3)
        life.upsert()
        before = life.rows
        life.upsert()
        for _ in range(later):
            life.upsert()
        life.crash(1, power_loss=False)
        for _ in range(1 + later):
            lose_last_batch(life, 1)
        life.index = MemoryKeyIndex()
        if later:
            with pytest.raises(CorruptionError, match=r"log ends before what other buckets .*restore it directory="):
                life.open()
        else:
            life.open()
            assert life.found() == before
            life.close()


def test_last_call_that_a_bucket_lacks_is_corruption_where_another_has_shown_it() -> None:
    life = GroupedLife()
    life.upsert()
    life.upsert()
    life.compact()
    life.upsert()
    life.checkpoint()
    life.crash(1, power_loss=False)
    lose_last_batch(life, 1)
    life.index = MemoryKeyIndex()
    with pytest.raises(CorruptionError, match="restore it"):
        life.open()


def test_call_is_whole_in_the_other_partitions_after_one_of_them_is_gone() -> None:
    life = GroupedLife()
    life.upsert()
    life.upsert()
    life.drop()
    life.disk.remove_tree(f"tables/{life.table.info.table_id}/2")
    reopen(life, 1, power_loss=True)
    assert {p for p, _ in life.rows} == {0, 2}
    life.close()


@pytest.mark.parametrize("fsync", [FsyncMode.INTERVAL, FsyncMode.NEVER])
def test_calls_are_whole_after_a_kill_however_seldom_the_log_is_synced(fsync: FsyncMode) -> None:
    first, end = operations()
    for number in range(first, end, 25):
        print(f"number={number}")
        crash_at(number, number, power_loss=False, fsync=fsync)


def test_table_that_lost_acknowledged_calls_without_syncs_opens_again_and_again() -> None:
    for seed in range(12):
        print(f"seed={seed}")
        life = GroupedLife(fsync=FsyncMode.NEVER)
        for step in (life.upsert, life.upsert_some, life.delete, life.upsert):
            step()
        life.crash(seed, power_loss=True)
        life.open()
        life.seal()
        life.crash(seed, power_loss=False)
        life.open()
        life.rows = life.found()
        life.upsert_some()
        life.upsert()
        reopen(life, seed, power_loss=False)
        life.close()


def fail_at(number: int, seed: int) -> str:
    """Live with errors of the disk from an operation on, crash, and go on; return what became of the first error."""
    random = Random(seed * 10_000 + number)
    life = GroupedLife()
    error, done = random.choice((errno.EIO, errno.ENOSPC)), random.choice((0.0, 0.5, 1.0))
    times = random.choice((1, 1, 2, 4, None))
    life.disk.fail_when(lambda operation: operation.number >= number, error, done=done, times=times)
    if random.random() < 0.3:
        life.disk.fail_when(lambda o: o.number > number and o.kind in {"truncate", "replace"}, error, times=times)
    told = "nothing"
    for step in life.steps():
        caught = life.attempt(step)
        assert not isinstance(caught, InternalError), caught
        assert not getattr(caught, "applied", {}), caught
        told = type(caught).__name__ if caught is not None and told == "nothing" else told
        assert life.found() == life.rows, step
    life.disk.clear_faults()
    reopen(life, seed, power_loss=random.random() < 0.5)
    life.upsert_some()
    life.upsert()
    reopen(life, seed, power_loss=random.random() < 0.5)
    life.close()
    return told


def test_calls_are_whole_after_errors_of_the_disk_at_many_moments() -> None:
    first, end = operations()
    told = set()
    for number in range(first, end, 10):
        print(f"number={number}")
        told.add(fail_at(number, number))
    assert {"BucketFailedError", "DiskFullError", "UnavailableError"} <= told


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(20))
def test_calls_are_whole_after_errors_of_the_disk_at_every_moment(seed: int) -> None:
    first, end = operations()
    for number in range(first, end):
        print(f"number={number}")
        fail_at(number, seed)
