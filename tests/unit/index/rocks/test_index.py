"""The RocksDB index: its life on disk, damage, crashes."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import rocksdict

from penstock.errors import CorruptionError, DirectoryInUseError, InvalidError, UnavailableError, UnsupportedError
from penstock.index.rocks.errors import note_damage
from penstock.index.rocks.index import RocksKeyIndex
from penstock.index.rocks.settings import RocksIndexSettings
from penstock.model.place.bucket import BucketId
from penstock.testing.faulty_disk import FaultyDisk

BUCKET = BucketId(1, 0, 0)
SMALL = RocksIndexSettings(memtable_bytes=64 << 10, memtables_max=2, block_cache_bytes=1 << 20, apply_chunk_keys=100)


def keys_between(start: int, end: int) -> pa.BinaryArray:
    return pa.array(np.arange(start, end).astype(">i8").view("V8").tolist(), pa.binary())


def apply_range(index: RocksKeyIndex, start: int, end: int) -> None:
    index.apply(BUCKET, keys_between(start, end), np.arange(start, end), end)


def flip_a_bit(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def open_and_read(path: Path) -> None:
    """Meet the damage: of a block when it is read, of anything else at the door."""
    index = RocksKeyIndex(path)
    try:
        index.get_many(BUCKET, keys_between(0, 20_000))
    finally:
        index.close()


def largest_table(path: Path) -> Path:
    return max(path.glob("*.sst"), key=lambda table: table.stat().st_size)


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    index = RocksKeyIndex(tmp_path)

    with pytest.raises(DirectoryInUseError, match="close it first"):
        RocksKeyIndex(tmp_path)

    index.close()
    RocksKeyIndex(tmp_path).close()


def test_settings_hold_after_reopening_with_others(tmp_path: Path) -> None:
    for cache_bytes in (4 << 20, 2 << 20, 3 << 20):
        index = RocksKeyIndex(tmp_path, RocksIndexSettings(block_cache_bytes=cache_bytes))
        apply_range(index, 0, 10)
        capacity = index._db.property_int_value("rocksdb.block-cache-capacity")
        index.close()

        assert capacity == cache_bytes


@pytest.mark.parametrize(
    ("name", "value"), [("memtable_bytes", 0), ("memtables_max", 1), ("apply_chunk_keys", 0), ("background_jobs", 65)]
)
def test_settings_out_of_range_are_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(InvalidError, match=f"setting={name} value={value}"):
        RocksIndexSettings(**{name: value})


def test_an_index_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    index = RocksKeyIndex(tmp_path)
    index._db.put(b"v", (2).to_bytes(4, "little"))
    index.close()

    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"newer penstock wrote this index.* version=2 supported=1"):
            RocksKeyIndex(tmp_path)


def test_keys_without_a_version_are_damage(tmp_path: Path) -> None:
    index = RocksKeyIndex(tmp_path)
    apply_range(index, 0, 10)
    index._db.delete(b"v")
    index.close()

    with pytest.raises(CorruptionError, match="no format version"):
        RocksKeyIndex(tmp_path)


@pytest.mark.parametrize("victim", ["CURRENT", "MANIFEST-*", "*.sst"])
@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_a_damaged_file_is_corruption_never_a_wrong_answer(tmp_path: Path, victim: str, damage: str) -> None:
    path = tmp_path / "index"
    index = RocksKeyIndex(path)
    apply_range(index, 0, 20_000)
    index.flush()
    index.close()
    hurt = largest_table(path) if victim == "*.sst" else next(path.glob(victim))

    if damage == "flip":
        flip_a_bit(hurt, hurt.stat().st_size // 2)
    else:
        hurt.unlink()

    with pytest.raises(CorruptionError, match="to have it rebuilt") as caught:
        open_and_read(path)
    assert type(caught.value.__cause__) is Exception
    with pytest.raises(CorruptionError, match="found damaged when it was last used"):
        RocksKeyIndex(path)


@pytest.mark.parametrize("seed", range(8))
def test_the_note_of_damage_outlives_a_power_loss(seed: int) -> None:
    disk = FaultyDisk()

    note_damage(disk)

    assert disk.after_power_loss(seed).exists("DAMAGED")


def test_a_scan_over_a_damaged_block_is_an_error_not_a_short_answer(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index = RocksKeyIndex(path)
    apply_range(index, 0, 20_000)
    index.flush()
    index.close()
    table = largest_table(path)
    flip_a_bit(table, table.stat().st_size // 2)

    index = RocksKeyIndex(path)
    try:
        assert index.prefix(BUCKET, b"", limit=100)[1].tolist() == list(range(100))
        with pytest.raises(CorruptionError, match="checksum"):
            index.prefix(BUCKET, b"")
    finally:
        index.close()


def test_a_damaged_index_can_be_destroyed_and_made_anew_while_its_error_is_held(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index = RocksKeyIndex(path)
    apply_range(index, 0, 20_000)
    index.flush()
    index.close()
    flip_a_bit(largest_table(path), 100)
    index = RocksKeyIndex(path)
    with pytest.raises(CorruptionError) as caught:
        index.prefix(BUCKET, b"")

    index.close()
    RocksKeyIndex.destroy(path)
    assert not path.exists()
    index = RocksKeyIndex(path)

    assert index.applied(BUCKET) == 0
    assert index.prefix(BUCKET, b"")[1].tolist() == []
    assert caught.value.__traceback__ is not None
    index.close()


def test_destroying_an_absent_index_is_no_error(tmp_path: Path) -> None:
    RocksKeyIndex.destroy(tmp_path / "absent")


def test_writes_faster_than_flushes_wait_without_loss(tmp_path: Path) -> None:
    index = RocksKeyIndex(tmp_path, SMALL)
    for start in range(0, 40_000, 4_000):
        apply_range(index, start, start + 4_000)

    found = index.get_many(BUCKET, keys_between(0, 40_000))
    index.close()

    assert np.array_equal(found, np.arange(40_000))


CHILD = """
import os, signal, sys
import numpy as np, pyarrow as pa
from penstock.index.rocks.index import RocksKeyIndex
from penstock.index.rocks.errors import note_damage
from penstock.index.rocks.settings import RocksIndexSettings
from penstock.model.place.bucket import BucketId
from penstock.testing.faulty_disk import FaultyDisk
path, flushed, total, memtable_bytes = sys.argv[1], *map(int, sys.argv[2:])
index = RocksKeyIndex(path, RocksIndexSettings(memtable_bytes=memtable_bytes, apply_chunk_keys=100))
for start in range(0, total, 250):
    keys = pa.array(np.arange(start, start + 250).astype(">i8").view("V8").tolist(), pa.binary())
    index.apply(BucketId(1, 0, 0), keys, np.arange(start, start + 250), start + 250)
    if start + 250 == flushed:
        index.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def run_and_kill(path: Path, *, flushed: int, total: int, memtable_bytes: int) -> None:
    arguments = [str(path), str(flushed), str(total), str(memtable_bytes)]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], env={"PYTHONPATH": ":".join(sys.path)}, check=False
    )
    assert child.returncode == -signal.SIGKILL


def test_a_killed_process_leaves_the_last_flush(tmp_path: Path) -> None:
    run_and_kill(tmp_path, flushed=5_000, total=10_000, memtable_bytes=16 << 20)

    index = RocksKeyIndex(tmp_path)

    assert index.applied(BUCKET) == 5_000
    assert index.prefix(BUCKET, b"")[1].tolist() == list(range(5_000))
    index.close()


def test_a_killed_process_leaves_a_prefix_of_its_write_batches(tmp_path: Path) -> None:
    run_and_kill(tmp_path, flushed=2_500, total=50_000, memtable_bytes=64 << 10)

    index = RocksKeyIndex(tmp_path)
    applied, offsets = index.applied(BUCKET), index.prefix(BUCKET, b"")[1]
    index.close()

    ahead = len(offsets) - applied
    assert offsets.tolist() == list(range(len(offsets)))
    assert 2_500 < applied < 50_000
    assert ahead in (0, 100, 200)


RUNNING_CHILD = """
import os, signal, sys
import numpy as np, pyarrow as pa
from penstock.index.rocks.index import RocksKeyIndex
from penstock.index.rocks.errors import note_damage
from penstock.index.rocks.settings import RocksIndexSettings
from penstock.model.place.bucket import BucketId
from penstock.testing.faulty_disk import FaultyDisk
index = RocksKeyIndex(sys.argv[1], RocksIndexSettings(run_keys_min=1, run_file_keys=1_000))
keys = pa.array(np.arange(5_000).astype(">i8").view("V8").tolist(), pa.binary())
index.apply(BucketId(1, 0, 0), keys[:3], np.arange(3), 3)
index.apply_run(BucketId(1, 0, 0), keys, np.arange(10, 5_010), 5_010)
index._path.joinpath("runs", "left.sst").write_bytes(b"half a file")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_the_keys_of_a_run_and_the_applied_offset_before_it(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", RUNNING_CHILD, str(tmp_path)], env={"PYTHONPATH": ":".join(sys.path)}, check=False
    )
    assert child.returncode == -signal.SIGKILL

    index = RocksKeyIndex(tmp_path)

    assert index.applied(BUCKET) == 3
    assert index.prefix(BUCKET, b"")[1].tolist() == list(range(10, 5_010))
    assert not (tmp_path / "runs").exists()
    index.close()


def test_runs_of_two_buckets_at_once_do_not_meet(tmp_path: Path) -> None:
    index = RocksKeyIndex(tmp_path, RocksIndexSettings(run_keys_min=1, run_file_keys=500, run_chunk_keys=100))
    keys = keys_between(0, 5_000)

    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(index.apply_run, BucketId(1, 0, n), keys, np.arange(5_000) + n, n) for n in range(8)]
    for call in calls:
        call.result()

    for n in range(8):
        assert np.array_equal(index.get_many(BucketId(1, 0, n), keys), np.arange(5_000) + n)
        assert index.applied(BucketId(1, 0, n)) == n
    assert list((tmp_path / "runs").iterdir()) == []
    index.close()


def test_a_run_that_finds_no_place_for_its_files_changes_nothing(tmp_path: Path) -> None:
    index = RocksKeyIndex(tmp_path, RocksIndexSettings(run_keys_min=1))
    (tmp_path / "runs").write_bytes(b"in the way")

    with pytest.raises(UnavailableError, match="may not be used"):
        index.apply_run(BUCKET, keys_between(0, 10), np.arange(10), 10)
    assert index.applied(BUCKET) == 0
    (tmp_path / "runs").unlink()
    index.apply_run(BUCKET, keys_between(0, 10), np.arange(10), 10)

    assert index.prefix(BUCKET, b"")[1].tolist() == list(range(10))
    index.close()


def test_what_a_store_holds_is_as_written_down(tmp_path: Path) -> None:
    index = RocksKeyIndex(tmp_path)
    index.apply(BucketId(1, 2, 3), pa.array([b"key"], pa.binary()), np.array([258]), 259)
    index.close()

    store = rocksdict.Rdict(str(tmp_path), rocksdict.Options(raw_mode=True))
    held = dict(store.items())
    store.close()

    assert held == {
        b"k" + bytes.fromhex("00000001 00000002 0003") + b"key": bytes.fromhex("0201000000000000"),
        b"a" + bytes.fromhex("00000001 00000002 0003"): bytes.fromhex("0301000000000000"),
        b"v": bytes.fromhex("01000000"),
    }
