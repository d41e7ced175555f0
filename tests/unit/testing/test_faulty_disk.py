"""Faults on demand."""

from __future__ import annotations

import errno
import threading

import pytest

from penstock.testing.fault_plan import Operation, SimulatedCrash
from penstock.testing.faulty_disk import FaultyDisk


def write_two_files(disk: FaultyDisk) -> None:
    disk.make_directory("d")
    for path in ("d/a", "d/b"):
        file = disk.create(path)
        file.preallocate(100)
        file.append(b"0123456789")
        file.truncate(8)
        file.sync()
        file.close()
    disk.replace("d/a", "d/c")
    disk.remove("d/b")
    disk.open_append("d/c", 8).close()
    disk.sync_directory("d")
    disk.remove_tree("d")


def test_every_mutating_operation_is_counted_and_can_fail() -> None:
    counting = FaultyDisk()
    write_two_files(counting)

    seen = []
    for number in range(counting.operations):
        disk = FaultyDisk()
        disk.fail_at(number, errno.EIO)
        with pytest.raises(OSError, match="Input/output error") as caught:
            write_two_files(disk)
        assert caught.value.errno == errno.EIO
        seen.append(disk.operations)

    assert counting.operations == 16
    assert seen == list(range(1, 17)), "each stopped at its own operation"


def test_reads_are_not_counted() -> None:
    disk = FaultyDisk()
    disk.create("a").append(b"data")
    before = disk.operations

    disk.open_read("a").pread(0, 4)
    found = (disk.read("a"), disk.list(""), disk.exists("a"), disk.size("a"))

    assert found == (b"data", ["a"], True, 4)
    assert disk.operations == before


def test_failed_append_leaves_the_part_that_was_done() -> None:
    disk = FaultyDisk()
    file = disk.create("a")
    disk.fail_at(disk.operations, errno.ENOSPC, done=0.5)

    with pytest.raises(OSError, match="No space"):
        file.append(b"01234", b"56789")

    assert file.size == 5
    assert disk.read("a") == b"01234"
    file.truncate(0)
    assert file.append(b"again") == 5, "the fault strikes once"


def test_operation_that_fails_before_anything_is_done_changes_nothing() -> None:
    disk = FaultyDisk()
    disk.create("a")
    disk.fail_when(lambda operation: operation.kind in {"replace", "remove", "create"}, errno.EIO, done=0.9)

    for act in (lambda: disk.replace("a", "b"), lambda: disk.remove("a"), lambda: disk.create("c")):
        with pytest.raises(OSError, match="Input/output error"):
            act()

    assert disk.paths() == ["a"]


def test_predicate_chooses_what_fails_and_how_often() -> None:
    disk = FaultyDisk()
    segment, other = disk.create("segment-1"), disk.create("other")
    disk.fail_when(lambda op: op.kind == "sync" and "segment" in op.path, errno.EIO, times=2)

    other.sync()
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            segment.sync()

    segment.sync()
    assert disk.operations == 6


def test_predicate_sees_the_facts_of_the_operation() -> None:
    disk = FaultyDisk()
    seen: list[Operation] = []

    def note(operation: Operation) -> bool:
        seen.append(operation)
        return False

    disk.fail_when(note, errno.EIO)

    disk.create("a").append(b"abc")
    disk.replace("a", "b")

    assert seen == [Operation(0, "create", "a"), Operation(1, "append", "a", 3), Operation(2, "replace", "a", 0, "b")]


def test_reads_fail_on_demand() -> None:
    disk = FaultyDisk()
    disk.create("a").append(b"data")
    reader = disk.open_read("a")
    disk.fail_reads_when(lambda operation: operation.path == "a", errno.EIO, times=2)

    for act in (lambda: reader.pread(0, 1), lambda: disk.read("a")):
        with pytest.raises(OSError, match="Input/output error"):
            act()

    assert disk.read("a") == b"data"


def test_cleared_faults_strike_no_more() -> None:
    disk = FaultyDisk()
    disk.fail_when(lambda _: True, errno.EIO)

    disk.clear_faults()

    disk.create("a")
    assert disk.paths() == ["a"]


def test_after_a_crash_every_operation_crashes_and_the_kernel_has_what_was_done() -> None:
    disk = FaultyDisk()
    file = disk.create("a")
    reader = disk.open_read("a")
    disk.crash_at(disk.operations, done=0.5)

    with pytest.raises(SimulatedCrash):
        file.append(b"0123456789")
    for act in (
        file.sync,
        lambda: disk.create("b"),
        lambda: disk.read("a"),
        lambda: disk.exists("a"),
        lambda: reader.pread(0, 1),
    ):
        with pytest.raises(SimulatedCrash):
            act()
    file.close()
    reader.close()

    assert disk.crashed
    after = disk.after_kill()
    assert not after.crashed
    assert after.operations == 0
    assert after.read("a") == b"01234"


@pytest.mark.parametrize(("done", "paths"), [(0.0, ["a"]), (1.0, ["b"])])
def test_crash_comes_before_or_after_a_rename(done: float, paths: list[str]) -> None:
    disk = FaultyDisk()
    disk.create("a")
    disk.crash_when(lambda operation: operation.kind == "replace", done=done)

    with pytest.raises(SimulatedCrash):
        disk.replace("a", "b")

    assert disk.after_kill().paths() == paths


def test_crash_within_remove_tree_leaves_a_part() -> None:
    disk = FaultyDisk()
    disk.make_directory("t")
    for name in ("t/a", "t/b", "t/c"):
        disk.create(name)
    disk.crash_at(disk.operations, done=0.5)

    with pytest.raises(SimulatedCrash):
        disk.remove_tree("t")

    assert disk.after_kill().paths() == ["t/a"]


def test_a_crash_is_no_exception_that_a_handler_could_survive() -> None:
    assert not issubclass(SimulatedCrash, Exception)


def test_full_disk_writes_what_fits_and_takes_more_once_there_is_room() -> None:
    disk = FaultyDisk(capacity_bytes=10)
    disk.create("other").append(b"0123")
    file = disk.create("a")

    with pytest.raises(OSError, match="No space") as caught:
        file.append(b"abcdefgh")

    assert caught.value.errno == errno.ENOSPC
    assert disk.read("a") == b"abcdef"
    file.truncate(0)
    disk.remove("other")
    assert file.append(b"abcdefgh") == 8


def test_preallocated_space_is_taken_from_a_full_disk_only_once() -> None:
    disk = FaultyDisk(capacity_bytes=10)
    file = disk.create("a")
    file.preallocate(11)
    assert disk.size("a") == 0, "best effort: none reserved"
    file.preallocate(8)

    with pytest.raises(OSError, match="No space"):
        disk.create("b").append(b"xyz")
    file.append(b"01234567")

    assert disk.read("a") == b"01234567"
    assert disk.read("b") == b"xy"


def test_skipped_syncs_do_nothing_and_say_nothing() -> None:
    disk = FaultyDisk()
    disk.skip_syncs(lambda operation: operation.path in {"a", "d"})
    for path in ("a", "b"):
        file = disk.create(path)
        file.append(b"data")
        file.sync()
    disk.make_directory("d")
    disk.sync_directory("")

    after = [disk.after_power_loss(seed) for seed in range(100)]

    assert {disk.read("b") for disk in after} == {b"data"}
    assert {b"", b"data"} <= {disk.read("a") for disk in after}


def test_directory_made_without_its_sync_may_be_lost() -> None:
    disk = FaultyDisk()
    disk.skip_syncs(lambda operation: operation.kind == "make_directory")

    disk.make_directory("d")

    assert {disk.after_power_loss(seed).exists("d") for seed in range(100)} == {True, False}


def test_flipped_bit_is_seen_by_open_readers_and_after_a_loss() -> None:
    disk = FaultyDisk()
    file = disk.create("a")
    file.append(b"\x00" * 4)
    file.preallocate(8)
    file.sync()
    disk.sync_directory("")
    reader = disk.open_read("a")

    disk.flip_bit("a", 1, 7)
    disk.flip_bit("a", 6, 0)

    expected = b"\x00\x80\x00\x00\x00\x00\x01\x00"
    assert bytes(reader.pread(0, 8)) == expected
    assert {disk.after_power_loss(seed).read("a") for seed in range(20)} == {expected}


def test_truncated_file_stays_so_after_a_loss() -> None:
    disk = FaultyDisk()
    file = disk.create("a")
    file.append(b"0123456789")
    file.preallocate(20)
    file.sync()
    disk.sync_directory("")

    disk.truncate_file("a", 3)

    assert disk.read("a") == b"012"
    assert {disk.after_power_loss(seed).read("a") for seed in range(20)} == {b"012"}


def test_damage_needs_a_file_that_exists() -> None:
    with pytest.raises(FileNotFoundError):
        FaultyDisk().flip_bit("a", 0, 0)


def test_threads_may_use_one_disk() -> None:
    disk = FaultyDisk()

    def work(number: int) -> None:
        file = disk.create(f"f{number}")
        for _ in range(200):
            file.append(bytes([number]) * 10)
            file.sync()
            disk.list("")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert disk.operations == 4 * 401
    assert [disk.read(path) for path in disk.paths()] == [bytes([number]) * 2000 for number in range(4)]


def test_power_loss_is_another_boot_and_a_kill_is_not() -> None:
    disk = FaultyDisk()

    boots = [disk.boot_id(), disk.after_kill().boot_id(), disk.after_power_loss(0).after_kill().boot_id()]

    assert boots[0] == boots[1] != boots[2]
