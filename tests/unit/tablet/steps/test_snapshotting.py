"""Snapshots of one bucket: what they cost, what they keep, what a reader with only the files sees."""

from __future__ import annotations

import errno
import gc
import subprocess
import sys
from random import Random
from typing import Any

import pytest
from tests.kit.memory_key_index import MemoryKeyIndex
from tests.kit.tablet_rig import BUCKET, TabletRig
from tests.kit.tablet_writes import KEY, RandomWrites

from penstock.codec.stored.snapshot_file import SnapshotFile, decode_snapshot, encode_snapshot
from penstock.errors import CorruptionError, OffsetOutOfRangeError, SnapshotNotFoundError
from penstock.model.table.merge_engine import MergeEngine
from penstock.tablet.snapshots.snapshot_reader import SnapshotReader
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.sealing import seal
from penstock.tablet.steps.snapshotting import take_snapshot
from penstock.tablet.view.pins import PinHolder, PinKind
from penstock.testing.faulty_disk import FaultyDisk

LEASE_A, LEASE_B = (PinHolder(PinKind.LEASE, name) for name in "ab")


class SnapshotRig(TabletRig):
    """A tablet rig that takes snapshots and reads them straight from the disk."""

    def take(self, x: int | None = None) -> SnapshotFile:
        schema_id = {"schema_id": self.tablet.schema.schema_id}
        offset = self.tablet.view.visible if x is None else x
        return take_snapshot(self.tablet, offset, self.index.flush, created_ms=5, table=schema_id, partition=None)

    def check_stored(self, snapshot: SnapshotFile) -> None:
        path = self.tablet.snapshots.path(snapshot.snapshot_id)
        assert stored_rows(self, path) == self.oracle.snapshot(snapshot.offset)

    def compact_all(self) -> None:
        seal(self.tablet, active_too=True)
        checkpoint(self.tablet, self.index.flush)
        compact(self.tablet, self.tablet.view.visible)
        gc.collect()

    def names(self, *kinds: str) -> set[str]:
        return {name for name in self.disk.list(BUCKET.directory()) if name.startswith(kinds)}

    def named(self) -> set[str]:
        return {n for entry in self.tablet.state.entries.values() for n in (entry.name, entry.ends) if n}


def stored_rows(rig: SnapshotRig, path: str) -> dict[Any, Any]:
    reader = SnapshotReader(rig.disk, path)
    rows = [row for block in reader.scan(rig.tablet.schema.user_columns) for row in block.batch.to_pylist()]
    reader.close()
    found = {(row[KEY],): row for row in rows}
    assert len(found) == len(rows)
    return found


def make(seed: int = 1, writes: int = 30) -> tuple[SnapshotRig, RandomWrites]:
    print(f"seed={seed}")
    rig = SnapshotRig(FaultyDisk(), MemoryKeyIndex())
    more = RandomWrites(Random(seed), MergeEngine.LAST_ROW)
    for _ in range(writes):
        rig.write([more.next(rig.oracle.columns)])
    return rig, more


def test_snapshot_is_read_straight_from_its_files() -> None:
    rig, more = make()

    snapshot = rig.take()
    for _ in range(20):
        rig.write([more.next(rig.oracle.columns)])

    assert snapshot.snapshot_id == 1
    assert snapshot.bytes == sum(snapshot.sizes.values()) > 0
    rig.check_stored(snapshot)


def test_snapshot_below_the_present_shows_its_own_offset() -> None:
    rig, _ = make()

    snapshot = rig.take(rig.tablet.view.visible // 2)

    rig.check_stored(snapshot)


def test_empty_bucket_has_an_empty_snapshot() -> None:
    rig, _ = make(writes=0)

    snapshot = rig.take()

    assert (snapshot.offset, snapshot.spans) == (0, ())
    rig.check_stored(snapshot)


def test_snapshot_of_an_unchanged_bucket_is_the_newest_again_and_writes_nothing() -> None:
    rig, _ = make()
    first = rig.take()
    before = rig.disk.list(BUCKET.directory())

    again = rig.take()

    assert again is first
    assert rig.disk.list(BUCKET.directory()) == before


def test_snapshot_after_a_new_column_is_a_new_one_on_the_same_files() -> None:
    rig, _ = make()
    first = rig.take()
    rig.add_column()

    second = rig.take()

    assert second.snapshot_id == 2
    assert second.file_names() == first.file_names()


def test_snapshot_costs_the_new_files_only() -> None:
    rig, more = make()
    first = rig.take()
    rig.write([more.next(rig.oracle.columns)])

    second = rig.take()

    fresh = {name for name in second.file_names() - first.file_names() if name.startswith("data")}
    assert len(fresh) == 1
    assert {name for name in first.file_names() if name.startswith("data")} <= second.file_names()


def test_compaction_leaves_files_that_a_snapshot_names() -> None:
    rig, more = make()
    snapshot = rig.take()
    for _ in range(40):
        rig.write([more.next(rig.oracle.columns)])

    rig.compact_all()

    assert rig.tablet.view.base == snapshot.offset
    assert rig.names("data", "ends") >= snapshot.file_names()
    rig.check_stored(snapshot)


def test_pruned_snapshot_takes_its_files_and_its_pin_along() -> None:
    rig, more = make()
    first = rig.take()
    for _ in range(40):
        rig.write([more.next(rig.oracle.columns)])
    second = rig.take()

    assert rig.tablet.snapshots.prune(1) == 1
    rig.compact_all()

    assert rig.names("snapshot") == {"snapshot-000000000002"}
    assert rig.names("data", "ends") == rig.named() | second.file_names()
    assert rig.tablet.view.base == second.offset
    with pytest.raises(SnapshotNotFoundError, match="list_snapshots"):
        rig.tablet.snapshots.hold(first.snapshot_id, LEASE_A)
    with pytest.raises(SnapshotNotFoundError, match="hold a lease"):
        SnapshotReader(rig.disk, rig.tablet.snapshots.path(first.snapshot_id))


def test_removal_that_was_not_durable_is_tried_again() -> None:
    rig, more = make()
    rig.take()
    rig.write([more.next(rig.oracle.columns)])
    second = rig.take()
    assert isinstance(rig.disk, FaultyDisk)
    rig.disk.fail_when(lambda operation: operation.kind == "sync_directory", errno.EIO, times=1)

    with pytest.raises(OSError, match="Input/output"):
        rig.tablet.snapshots.prune(1)
    assert len(rig.tablet.snapshots.all()) == 2

    assert rig.tablet.snapshots.prune(1) == 1
    assert rig.tablet.snapshots.all() == [second]


def test_held_snapshot_stays_until_its_last_holder_lets_go() -> None:
    rig, more = make()
    first = rig.take()
    for holder in (LEASE_A, LEASE_B):
        rig.tablet.snapshots.hold(first.snapshot_id, holder)
    rig.write([more.next(rig.oracle.columns)])
    rig.take()

    rig.tablet.snapshots.release(first.snapshot_id, LEASE_A)
    assert rig.tablet.snapshots.prune(1) == 0
    rig.check_stored(first)

    rig.tablet.snapshots.release(first.snapshot_id, LEASE_B)
    assert rig.tablet.snapshots.prune(1) == 1


def test_kept_bytes_are_those_of_files_that_only_one_holder_keeps() -> None:
    rig, more = make()
    first = rig.take()
    rig.tablet.snapshots.hold(first.snapshot_id, LEASE_A)
    for _ in range(40):
        rig.write([more.next(rig.oracle.columns)])
    second = rig.take()
    assert rig.tablet.snapshots.kept_bytes(LEASE_A, 2) == 0

    rig.compact_all()
    only = first.file_names() - rig.named() - second.file_names()

    assert rig.tablet.snapshots.kept_bytes(LEASE_A, 1) == sum(first.sizes[name] for name in only) > 0
    rig.tablet.snapshots.hold(first.snapshot_id, LEASE_B)
    assert rig.tablet.snapshots.kept_bytes(LEASE_A, 1) == 0


def test_snapshots_are_there_after_reopening_with_their_files_and_pins() -> None:
    rig, more = make()
    first = rig.take()
    for _ in range(40):
        rig.write([more.next(rig.oracle.columns)])
    rig.compact_all()

    assert isinstance(rig.disk, FaultyDisk)
    rig.reopen(rig.disk.after_kill())

    assert rig.tablet.snapshots.newest() == first
    rig.check_stored(first)
    with pytest.raises(OffsetOutOfRangeError):
        rig.tablet.pins.pin(PinHolder(PinKind.READER, "below"), first.offset - 1)
    assert rig.take().snapshot_id == 2


def test_damaged_snapshot_is_not_offered_and_its_number_not_used_again() -> None:
    rig, _ = make()
    rig.take()
    rig.tablet.close()
    assert isinstance(rig.disk, FaultyDisk)
    rig.disk.flip_bit(rig.tablet.snapshots.path(1), 30, 1)

    rig.reopen()

    assert rig.tablet.snapshots.newest() is None
    assert rig.take().snapshot_id == 2


def test_snapshot_whose_file_was_refused_by_the_disk_does_not_exist() -> None:
    rig, _ = make()
    assert isinstance(rig.disk, FaultyDisk)
    rig.disk.fail_when(lambda operation: "snapshot" in operation.path, errno.ENOSPC, times=1)

    with pytest.raises(OSError, match="space"):
        rig.take()

    assert rig.tablet.snapshots.all() == []
    rig.check_stored(rig.take())


def test_reader_refuses_a_file_that_is_not_the_one_named() -> None:
    rig, _ = make()
    snapshot = rig.take()
    name = next(name for name in snapshot.sizes if name.startswith("data"))
    assert isinstance(rig.disk, FaultyDisk)
    rig.disk.truncate_file(f"{BUCKET.directory()}/{name}", 100)

    with pytest.raises(CorruptionError):
        rig.check_stored(snapshot)


def test_snapshot_file_reads_back_as_it_was_written() -> None:
    rig, _ = make()
    snapshot = rig.take()

    assert decode_snapshot(encode_snapshot(snapshot), name="x") == snapshot


def test_reader_from_storage_loads_neither_rocksdb_nor_a_server() -> None:
    code = (
        "import sys, penstock.tablet.snapshots.stored_snapshot;"
        "print([m for m in sys.modules if m.startswith(('rocksdict', 'penstock.server', 'penstock.index', 'sqlite3'))])"
    )

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"


@pytest.mark.parametrize("seed", range(12))
def test_held_snapshots_are_exactly_readable_through_any_life(seed: int) -> None:
    random = Random(seed)
    rig, more = make(seed, writes=3)
    held: dict[int, SnapshotFile] = {}
    for step in range(80):
        action = random.choices(["write", "take", "drop", "compact", "seal", "reopen", "power"], [10, 4, 2, 4, 2, 1, 1])
        match action[0]:
            case "write":
                rig.write([more.next(rig.oracle.columns)])
            case "take":
                low = max((s.offset for s in rig.tablet.snapshots.all()), default=rig.tablet.view.base)
                snapshot = rig.take(random.randint(low, rig.tablet.view.visible))
                if random.random() < 0.5:
                    held[snapshot.snapshot_id] = rig.tablet.snapshots.hold(snapshot.snapshot_id, LEASE_A)
                rig.tablet.snapshots.prune(random.randint(1, 3))
            case "drop" if held:
                gone = random.choice(sorted(held))
                del held[gone]
                rig.tablet.snapshots.release(gone, LEASE_A)
                rig.tablet.snapshots.prune(1)
            case "compact":
                rig.compact_all()
            case "seal":
                seal(rig.tablet, active_too=True)
            case "reopen" | "power":
                assert isinstance(rig.disk, FaultyDisk)
                disk = rig.disk.after_kill() if action == ["reopen"] else rig.disk.after_power_loss(seed * 1000 + step)
                rig.reopen(disk, MemoryKeyIndex())
                for snapshot_id in held:
                    rig.tablet.snapshots.hold(snapshot_id, LEASE_A)
        for snapshot in held.values():
            rig.check_stored(snapshot)
            rig.check_snapshot(snapshot.offset)
    for snapshot_id in held:
        rig.tablet.snapshots.release(snapshot_id, LEASE_A)
    rig.tablet.snapshots.prune(1)
    rig.compact_all()
    kept = [snapshot.file_names() for snapshot in rig.tablet.snapshots.all()]
    assert rig.names("data", "ends") == rig.named().union(*kept)
