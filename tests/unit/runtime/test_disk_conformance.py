"""What every `Disk` does, whatever it is made of."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.runtime.disk import Disk, write_atomically
from penstock.runtime.local_disk import LocalDisk
from penstock.testing.faulty_disk import FaultyDisk

DISKS: dict[str, Callable[[Path], Disk]] = {
    "local": LocalDisk,
    "faulty": lambda _: FaultyDisk(),
}


@pytest.fixture(params=sorted(DISKS))
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return DISKS[request.param](tmp_path)


def write(disk: Disk, path: str, data: bytes) -> None:
    file = disk.create(path)
    file.append(data)
    file.close()


def test_appended_bytes_are_read_back_in_order(disk: Disk) -> None:
    file = disk.create("a")

    sizes = [file.append(b"one", memoryview(b"two"), b""), file.append(), file.append(b"three")]
    file.sync()
    file.close()

    assert sizes == [6, 6, 11]
    assert file.size == 11
    assert disk.read("a") == b"onetwothree"
    assert disk.size("a") == 11


def test_append_takes_more_buffers_than_one_gather_write_allows(disk: Disk) -> None:
    pieces = [bytes([number % 251]) * (number % 7) for number in range(5_000)]
    file = disk.create("a")

    size = file.append(*pieces)

    assert disk.read("a") == b"".join(pieces)
    assert size == len(b"".join(pieces))


def test_append_takes_views_of_wider_items(disk: Disk) -> None:
    file = disk.create("a")

    size = file.append(memoryview(pa.array([1, 2, 3], pa.int64()).buffers()[1]).cast("q"))

    assert size % 8 == 0
    assert disk.read("a")[:24] == b"".join(number.to_bytes(8, "little") for number in (1, 2, 3))


def test_create_refuses_a_path_that_exists(disk: Disk) -> None:
    disk.make_directory("d")
    write(disk, "a", b"old")

    for path in ("a", "d"):
        with pytest.raises(FileExistsError):
            disk.create(path)

    assert disk.read("a") == b"old"


def test_create_needs_its_directory(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.create("nowhere/a")


def test_truncate_takes_bytes_back_and_appending_goes_on_there(disk: Disk) -> None:
    file = disk.create("a")
    file.append(b"0123456789")

    file.truncate(4)

    assert file.size == 4
    assert disk.size("a") == 4
    assert file.append(b"xy") == 6
    assert disk.read("a") == b"0123xy"


def test_preallocated_space_reads_as_zeroes_and_is_no_part_of_the_appended_size(disk: Disk) -> None:
    file = disk.create("a")
    file.append(b"abc")

    file.preallocate(4096)
    file.append(b"def")

    assert file.size == 6
    assert disk.size("a") == 4096
    assert disk.read("a") == b"abcdef" + bytes(4090)


def test_preallocating_less_than_is_there_changes_nothing(disk: Disk) -> None:
    file = disk.create("a")
    file.append(b"abcdef")

    file.preallocate(3)

    assert disk.read("a") == b"abcdef"


def test_truncate_takes_preallocated_space_away(disk: Disk) -> None:
    file = disk.create("a")
    file.preallocate(1000)
    file.append(b"abc")

    file.truncate(3)

    assert disk.read("a") == b"abc"


def test_open_append_cuts_off_what_lies_beyond(disk: Disk) -> None:
    write(disk, "a", b"0123456789")

    file = disk.open_append("a", 4)

    assert file.size == 4
    file.append(b"x")
    assert disk.read("a") == b"0123x"


def test_open_append_may_start_within_preallocated_zeroes(disk: Disk) -> None:
    file = disk.create("a")
    file.append(b"abc")
    file.preallocate(100)
    file.close()

    file = disk.open_append("a", 5)
    file.append(b"x")

    assert disk.read("a") == b"abc\0\0x"


def test_open_append_refuses_a_file_that_is_shorter(disk: Disk) -> None:
    write(disk, "a", b"0123")

    with pytest.raises(OSError, match="a") as caught:
        disk.open_append("a", 5)

    assert caught.value.errno == errno.EINVAL
    assert disk.read("a") == b"0123"


@pytest.mark.parametrize("missing", ["a", "d/a"])
def test_opening_or_removing_what_is_not_there_is_file_not_found(disk: Disk, missing: str) -> None:
    for act in (
        lambda: disk.open_append(missing, 0),
        lambda: disk.open_read(missing),
        lambda: disk.read(missing),
        lambda: disk.remove(missing),
        lambda: disk.replace(missing, "b"),
        lambda: disk.size(missing),
        lambda: disk.sync_directory(missing),
    ):
        with pytest.raises(FileNotFoundError):
            act()

    assert not disk.exists(missing)


def test_pread_gives_fewer_bytes_only_at_the_end_of_the_file(disk: Disk) -> None:
    write(disk, "a", b"0123456789")
    file = disk.open_read("a")

    found = [bytes(file.pread(*span)) for span in ((0, 3), (7, 3), (8, 5), (10, 1), (99, 1), (3, 0), (0, 1 << 60))]

    assert found == [b"012", b"789", b"89", b"", b"", b"", b"0123456789"]
    assert file.size == 10


def test_pread_gives_read_only_bytes_that_arrow_takes_without_a_copy(disk: Disk) -> None:
    write(disk, "a", b"0123456789")

    view = disk.open_read("a").pread(2, 4)

    assert view.readonly
    assert view.format == "B"
    assert pa.py_buffer(view).to_pybytes() == b"2345"


def test_a_reader_sees_what_is_appended_after_it_opened(disk: Disk) -> None:
    writer = disk.create("a")
    writer.append(b"abc")
    reader = disk.open_read("a")

    writer.append(b"def")

    assert reader.size == 3
    assert bytes(reader.pread(0, 10)) == b"abcdef"


def test_threads_share_one_read_file(disk: Disk) -> None:
    write(disk, "a", bytes(range(256)) * 64)
    file = disk.open_read("a")

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda position: bytes(file.pread(position, 256)), range(0, 256 * 60, 17)))

    whole = bytes(range(256)) * 64
    assert found == [whole[position : position + 256] for position in range(0, 256 * 60, 17)]


def test_closing_twice_is_harmless_and_use_after_it_is_a_bad_descriptor(disk: Disk) -> None:
    writer = disk.create("a")
    reader = disk.open_read("a")
    for file in (writer, reader):
        file.close()
        file.close()

    for act in (lambda: writer.append(b"x"), writer.sync, lambda: reader.pread(0, 1)):
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)) as caught:
            act()
        assert caught.value.errno == errno.EBADF


def test_replace_renames_over_the_target(disk: Disk) -> None:
    write(disk, "new", b"new")
    write(disk, "old", b"old")

    disk.replace("new", "old")

    assert disk.list("") == ["old"]
    assert disk.read("old") == b"new"


def test_replace_moves_between_directories(disk: Disk) -> None:
    disk.make_directory("d")
    write(disk, "a", b"data")

    disk.replace("a", "d/b")

    assert (disk.list(""), disk.list("d"), disk.read("d/b")) == (["d"], ["b"], b"data")


def test_replace_refuses_directories(disk: Disk) -> None:
    disk.make_directory("d")
    write(disk, "a", b"data")

    for source, target in (("d", "e"), ("a", "d")):
        with pytest.raises(IsADirectoryError):
            disk.replace(source, target)

    assert disk.list("") == ["a", "d"]


def test_replace_needs_the_targets_directory(disk: Disk) -> None:
    write(disk, "a", b"data")

    with pytest.raises(FileNotFoundError):
        disk.replace("a", "nowhere/a")

    assert disk.read("a") == b"data"


def test_a_removed_file_stays_readable_to_who_has_it_open(disk: Disk) -> None:
    write(disk, "a", b"data")
    reader = disk.open_read("a")

    disk.remove("a")

    assert not disk.exists("a")
    assert bytes(reader.pread(0, 4)) == b"data"


def test_list_names_files_and_directories_sorted(disk: Disk) -> None:
    disk.make_directory("b/c")
    write(disk, "z", b"")
    write(disk, "a", b"")

    assert disk.list("") == ["a", "b", "z"]
    assert disk.list("b") == ["c"]
    assert disk.list("b/c") == []
    assert disk.list("nowhere") == []


def test_list_of_a_file_is_refused(disk: Disk) -> None:
    write(disk, "a", b"")

    with pytest.raises(NotADirectoryError):
        disk.list("a")


def test_make_directory_makes_parents_and_may_be_repeated(disk: Disk) -> None:
    for _ in range(2):
        disk.make_directory("a/b/c")
        disk.make_directory("")

    assert disk.exists("a/b/c")
    assert disk.exists("")
    assert disk.list("a") == ["b"]


def test_make_directory_refuses_the_place_of_a_file(disk: Disk) -> None:
    write(disk, "a", b"")

    for directory in ("a", "a/b"):
        with pytest.raises(NotADirectoryError):
            disk.make_directory(directory)


def test_remove_tree_removes_everything_below_and_nothing_beside(disk: Disk) -> None:
    disk.make_directory("a/b")
    disk.make_directory("ab")
    write(disk, "a/x", b"")
    write(disk, "a/b/y", b"")
    write(disk, "ab/z", b"")

    disk.remove_tree("a")
    disk.remove_tree("a")

    assert disk.list("") == ["ab"]
    assert disk.list("ab") == ["z"]
    disk.make_directory("a/b")
    assert disk.list("a/b") == []


def test_write_atomically_replaces_and_leaves_nothing_beside(disk: Disk) -> None:
    disk.make_directory("d")
    write(disk, "d/manifest.tmp", b"left by a crash")

    write_atomically(disk, "d/manifest", b"one")
    write_atomically(disk, "d/manifest", b"two")
    write_atomically(disk, "root", b"three")

    assert disk.list("d") == ["manifest"]
    assert (disk.read("d/manifest"), disk.read("root")) == (b"two", b"three")


@pytest.mark.parametrize("path", ["/etc/passwd", "../a", "a/../../b", "a/", "a//b", "./a", "."])
def test_paths_that_leave_the_root_or_are_not_normal_are_refused(disk: Disk, path: str) -> None:
    for act in (lambda: disk.read(path), lambda: disk.create(path), lambda: disk.replace("a", path)):
        with pytest.raises(OSError, match="below the root"):
            act()


def test_boot_id_stays_the_same_while_the_machine_runs(disk: Disk) -> None:
    first = disk.boot_id()

    assert len(first) == 16
    assert first != bytes(16)
    assert disk.boot_id() == first


def test_boot_of_this_machine_is_known_to_every_process(tmp_path: Path) -> None:
    script = f"from penstock.runtime.local_disk import LocalDisk; print(LocalDisk({str(tmp_path)!r}).boot_id().hex())"

    found = {subprocess.check_output([sys.executable, "-c", script], text=True) for _ in range(2)}

    assert len(found) == (1 if Path("/proc/sys/kernel/random/boot_id").exists() else 2)


def test_rewritten_file_is_the_same(disk: Disk) -> None:
    file = disk.create("a")
    data = bytes(range(256)) * 10_000
    file.append(data)
    file.preallocate(3_000_000)

    file.rewrite()
    file.sync()

    assert file.size == len(data)
    assert disk.read("a")[: len(data)] == data
    file.append(b"more")
    file.close()
    assert disk.read("a")[: len(data) + 4] == data + b"more"


def test_free_space_is_no_more_than_there_is(disk: Disk) -> None:
    free, total = disk.space()

    assert 0 <= free <= total
