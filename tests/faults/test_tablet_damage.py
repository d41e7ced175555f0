"""Stored bytes that are not what was written: found or made anew, never a wrong answer."""

from __future__ import annotations

import errno
import logging
from contextlib import closing
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.memory_key_index import MemoryKeyIndex
from tests.kit.tablet_rig import BUCKET, TabletRig
from tests.kit.tablet_writes import RandomWrites, TabletWrite

from penstock.errors import CorruptionError, PenstockError
from penstock.log.chunk_cache import ChunkCache
from penstock.log.file_pool import FilePool
from penstock.log.settings import LogSettings
from penstock.model.place.bucket import LIFE_OFFSETS, BucketId
from penstock.model.table.merge_engine import MergeEngine
from penstock.tablet.files.bucket_files import BucketFiles
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.recovery import open_tablet
from penstock.tablet.steps.sealing import seal
from penstock.testing.fault_plan import Operation
from penstock.testing.faulty_disk import FaultyDisk

KINDS = ("segment", "data", "ends", "manifest")


def lived_in(seed: int = 0) -> TabletRig:
    """Return a bucket that has files of every kind: sealed, compacted, checkpointed, and written since."""
    rig = TabletRig(FaultyDisk(), MemoryKeyIndex(chunk_keys=3))
    writes = RandomWrites(Random(seed), MergeEngine.LAST_ROW)

    def write(count: int) -> None:
        for _ in range(count):
            rig.write([writes.next(rig.oracle.columns)])

    write(12)
    seal(rig.tablet, active_too=True)
    checkpoint(rig.tablet, rig.index.flush)
    compact(rig.tablet, rig.oracle.end // 2)
    write(6)
    rig.tablet.roll()
    write(4)
    checkpoint(rig.tablet, rig.index.flush)
    # What a lost batch without rows was cannot be told from the offsets.
    rig.write([TabletWrite("upsert", [{"0": 1, "1": "last", "2": 7}])])
    return rig


def paths_of(disk: FaultyDisk, kind: str) -> list[str]:
    return [path for path in disk.paths() if path.startswith(f"{BUCKET.directory()}/{kind}-")]


def answers_or_says_so(rig: TabletRig, disk: FaultyDisk, seed: int) -> bool:
    """Open the bucket and compare; tell whether the damage was found. A wrong answer is an assertion's matter."""
    try:
        rig.reopen(disk)
        rig.check(Random(seed))
    except CorruptionError:
        return True
    return False


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_flipped_bit_is_found_or_makes_no_difference(kind: str, seed: int) -> None:
    rig, random = lived_in(seed), Random(seed)
    assert isinstance(rig.disk, FaultyDisk)
    whole = rig.disk
    found = 0
    for path in paths_of(whole, kind):
        for _ in range(25):
            disk = whole.after_kill()
            position, bit = random.randrange(disk.size(path)), random.randrange(8)
            print(f"path={path} position={position} bit={bit}")
            disk.flip_bit(path, position, bit)
            found += answers_or_says_so(rig, disk, seed)
    assert found or kind == "ends"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_truncated_file_is_found_or_makes_no_difference(kind: str, seed: int) -> None:
    rig, random = lived_in(seed), Random(seed)
    assert isinstance(rig.disk, FaultyDisk)
    whole = rig.disk
    found = 0
    for path in paths_of(whole, kind):
        size = whole.size(path)
        for cut in [0, 1, size - 1, *(random.randrange(size) for _ in range(15))]:
            disk = whole.after_kill()
            print(f"path={path} size={cut}")
            disk.truncate_file(path, cut)
            found += answers_or_says_so(rig, disk, seed)
    assert found or kind == "ends"


@pytest.mark.parametrize("kind", ["segment", "data", "manifest"])
def test_missing_file_is_found(kind: str) -> None:
    rig = lived_in()
    assert isinstance(rig.disk, FaultyDisk)
    whole = rig.disk
    for path in paths_of(whole, kind):
        disk = whole.after_kill()
        disk.remove(path)

        with pytest.raises(CorruptionError):
            rig.reopen(disk)


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "unreadable"])
def test_damaged_ends_are_made_anew_and_saved_by_the_next_checkpoint(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig = lived_in()
    assert isinstance(rig.disk, FaultyDisk)
    disk = rig.disk.after_kill()
    paths = paths_of(disk, "ends")
    assert paths
    for path in paths:
        if damage == "flipped":
            disk.flip_bit(path, disk.size(path) - 1, 3)
        elif damage == "cut":
            disk.truncate_file(path, disk.size(path) // 2)
        elif damage == "gone":
            disk.remove(path)
        else:
            disk.fail_reads_when(lambda operation: "/ends-" in operation.path, errno.EIO)

    with caplog.at_level(logging.WARNING, "penstock"):
        rig.reopen(disk)
    assert [record for record in caplog.records if "making them anew" in record.getMessage()]
    rig.check(Random(0), looks=10)

    caplog.clear()
    disk.clear_faults()
    checkpoint(rig.tablet, rig.index.flush)
    with caplog.at_level(logging.WARNING, "penstock"):
        rig.reopen(disk.after_kill())
    assert not caplog.records
    rig.check(Random(0), looks=10)


@pytest.mark.parametrize("seed", range(12))
def test_lost_or_stale_index_is_made_anew(seed: int) -> None:
    rig, random = lived_in(seed), Random(seed)
    assert isinstance(rig.index, MemoryKeyIndex)
    index = rig.index.after_crash(seed)
    random.choice((index.lose, index.roll_back, lambda: None))()

    rig.reopen(index=index)

    rig.check(random)


@pytest.mark.parametrize("wrong", ["ended row", "compacted row", "row to come"])
def test_index_that_points_at_no_live_row_is_made_anew_before_a_write(wrong: str) -> None:
    rig = lived_in()
    tablet, oracle = rig.tablet, rig.oracle
    ends = oracle.ends()
    targets = {
        "ended row": next(at for at in range(oracle.end - 1, 0, -1) if ends[at] < oracle.end),
        "compacted row": next(at for at, end in enumerate(ends) if end < tablet.view.base),
        "row to come": oracle.end + 3,
    }
    keys = tablet.schema.encode_keys(pa.RecordBatch.from_pydict({"0": pa.array([5], pa.int64())}))
    rig.index.apply(BUCKET, keys, np.array([targets[wrong]]), applied=oracle.end)

    rig.write([TabletWrite("upsert", [{"0": 5, "1": "new", "2": 1}])])

    rig.check(Random(0))


def test_index_ahead_of_the_log_means_a_damaged_log() -> None:
    rig = lived_in()
    rig.index.apply(BUCKET, pa.array([], pa.binary()), np.empty(0, np.int64), applied=rig.oracle.end + 1)

    with pytest.raises(CorruptionError, match="log ends before what was durable"):
        rig.reopen()


def test_log_that_is_too_short_is_left_as_it_is() -> None:
    rig = lived_in()
    assert isinstance(rig.disk, FaultyDisk)
    disk = rig.disk.after_kill()
    last = paths_of(disk, "segment")[-1]
    torn = disk.size(last) - 1
    disk.truncate_file(last, 900)
    before = disk.read(last)
    assert len(before) < torn

    with pytest.raises(CorruptionError):
        rig.reopen(disk)

    assert disk.read(last) == before


@pytest.mark.parametrize("kind", ["segment", "data", "manifest"])
def test_read_error_is_passed_on_and_nothing_is_lost(kind: str) -> None:
    rig = lived_in()
    assert isinstance(rig.disk, FaultyDisk)
    disk = rig.disk.after_kill()

    def is_read(operation: Operation) -> bool:
        return f"/{kind}-" in operation.path

    disk.fail_reads_when(is_read, errno.EIO)
    with pytest.raises((OSError, PenstockError)):
        rig.reopen(disk)

    disk.clear_faults()
    rig.reopen(disk)
    rig.check(Random(0))


def test_read_error_in_a_scan_is_passed_on_and_the_next_scan_is_exact() -> None:
    rig = lived_in()
    assert isinstance(rig.disk, FaultyDisk)
    disk = rig.disk.after_kill()
    rig.reopen(disk)
    disk.fail_reads_when(lambda operation: "/data-" in operation.path, errno.EIO)

    with pytest.raises(OSError, match="Input/output"):
        rig.check_snapshot(rig.tablet.view.base)

    disk.clear_faults()
    rig.check(Random(0))


@pytest.mark.parametrize("kind", ["segment", "data", "manifest"])
def test_file_of_another_bucket_is_refused(kind: str) -> None:
    rig = lived_in()
    assert isinstance(rig.disk, FaultyDisk)
    path = paths_of(rig.disk, kind)[0]
    stranger = BucketId(1, 0, 7)
    rig.disk.make_directory(stranger.directory())
    with closing(rig.disk.create(path.replace(BUCKET.directory(), stranger.directory()))) as copied:
        copied.append(rig.disk.read(path))
    files = BucketFiles(rig.disk, stranger, FilePool(rig.disk, 8), ChunkCache(1 << 16), LogSettings())

    def read() -> None:
        if kind == "data":
            files.open_data(path.rpartition("/")[2])
        else:
            open_tablet(files, rig.tablet.schema, rule=rig.tablet.rule, index=rig.index, settings=rig.settings)

    with pytest.raises(CorruptionError, match="belongs to another bucket"):
        read()


ABSENT = {"0": 4_711}
EMPTY = TabletWrite("delete", [ABSENT], writer_id=b"w" * 16, sequence=1)
"""A call that changes nothing, of a writer that may send it again: the log has a batch without rows."""


def ending_in_an_empty_batch() -> tuple[TabletRig, FaultyDisk, str, int]:
    """Return a bucket, its disk, and the file and position of the batch without rows that its log ends in."""
    rig = TabletRig(FaultyDisk(), MemoryKeyIndex())
    assert isinstance(rig.disk, FaultyDisk)
    rig.write([TabletWrite("upsert", [{"0": key, "1": "a", "2": key} for key in range(5)])])
    (path,) = paths_of(rig.disk, "segment")
    start = len(rig.disk.read(path).rstrip(b"\0"))
    rig.write([EMPTY])
    return rig, rig.disk, path, start


def test_flipped_bit_in_a_batch_without_rows_is_found() -> None:
    rig, whole, path, start = ending_in_an_empty_batch()
    end = len(whole.read(path).rstrip(b"\0"))
    assert start < end < start + 200

    for position in range(start, end):
        disk = whole.after_kill()
        disk.flip_bit(path, position, position % 8)
        print(f"position={position - start} bit={position % 8}")
        with pytest.raises(CorruptionError):
            rig.reopen(disk)


def test_log_that_lost_a_batch_without_rows_answers_as_before_and_takes_the_call_again() -> None:
    rig, whole, path, start = ending_in_an_empty_batch()
    end = len(whole.read(path).rstrip(b"\0"))

    for cut in (start, start + 1, start + 80, end - 1):
        print(f"cut={cut - start}")
        disk = whole.after_kill()
        disk.truncate_file(path, cut)
        files = BucketFiles(disk, BUCKET, FilePool(disk, 8), ChunkCache(1 << 16), LogSettings())
        tablet = open_tablet(files, rig.tablet.schema, rule=rig.tablet.rule, index=rig.index, settings=rig.settings)

        assert tablet.state.writers.find(EMPTY.writer_id, EMPTY.sequence) is None
        assert tablet.view.visible == rig.oracle.end
        assert tablet.view.live_rows == 5
        assert tablet.planner().plan(EMPTY.request(tablet.schema)).batch.num_rows == 0


def test_log_that_does_not_begin_where_it_must_is_damage_and_stays() -> None:
    rig = TabletRig(FaultyDisk(), MemoryKeyIndex())
    rig.write([TabletWrite("upsert", [{"0": 1, "1": "a", "2": 7}])])
    rig.tablet.close()
    kept = rig.disk.list(BUCKET.directory())
    rig.oracle.start = LIFE_OFFSETS

    with pytest.raises(CorruptionError, match="log has a gap"):
        rig.reopen(index=MemoryKeyIndex())

    assert rig.disk.list(BUCKET.directory()) == kept


def test_bucket_that_begins_late_needs_no_new_index(caplog: pytest.LogCaptureFixture) -> None:
    rig = TabletRig(FaultyDisk(), MemoryKeyIndex(), first_offset=LIFE_OFFSETS)
    rig.reopen()
    rig.write([TabletWrite("upsert", [{"0": 1, "1": "a", "2": 7}])])
    # All of the index is lost, as by a crash before its first flush: the log from its beginning makes it.
    rig.reopen(index=MemoryKeyIndex())

    rig.check(Random(0))
    assert "rebuilding" not in caplog.text
