"""What only a disk of the machine can show."""

from __future__ import annotations

import errno
import os
import resource
import threading
from pathlib import Path

import pytest

from penstock.runtime.local_disk import LocalDisk


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    return LocalDisk(tmp_path)


def open_descriptors(disk: LocalDisk) -> int:
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    return sum(os.readlink(link).startswith(str(disk.root)) for link in links if os.path.lexists(link))


def test_short_write_is_continued_until_the_error_and_truncate_takes_it_back(disk: LocalDisk) -> None:
    file = disk.create("a")
    file.append(b"kept")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="too large") as caught:
            file.append(b"x" * 600, b"y" * 600)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert caught.value.errno == errno.EFBIG
    assert file.size == 1000
    assert disk.read("a") == b"kept" + b"x" * 600 + b"y" * 396
    file.truncate(4)
    assert disk.read("a") == b"kept"


def test_preallocating_more_than_the_file_system_takes_is_no_error(disk: LocalDisk) -> None:
    file = disk.create("a")

    file.preallocate(1 << 62)

    file.append(b"data")
    assert file.size == 4


def test_descriptors_are_not_inherited_and_are_closed_with_their_object(disk: LocalDisk) -> None:
    writer, reader = disk.create("a"), disk.open_read("a")
    inheritable = [os.get_inheritable(writer._fd), os.get_inheritable(reader._fd)]

    del writer, reader

    assert inheritable == [False, False]
    assert open_descriptors(disk) == 0


def test_failed_opens_leave_no_descriptor(disk: LocalDisk) -> None:
    disk.create("a").close()

    with pytest.raises(OSError, match="shorter"):
        disk.open_append("a", 1)

    assert open_descriptors(disk) == 0


def test_close_during_reads_gives_each_of_them_the_right_bytes_or_an_error(disk: LocalDisk) -> None:
    files = 40
    for number in range(files):
        file = disk.create(str(number))
        file.append(bytes([number]) * 5000)
        file.close()
    wrong: list[int] = []

    def read_until_closed(number: int) -> None:
        reader = readers[number]
        while True:
            try:
                data = bytes(reader.pread(0, 5000))
            except OSError as error:
                if error.errno != errno.EBADF:
                    wrong.append(number)
                return
            if data != bytes([number]) * 5000:
                wrong.append(number)

    readers = [disk.open_read(str(number)) for number in range(files)]
    threads = [threading.Thread(target=read_until_closed, args=(number,)) for number in range(files)]
    for thread in threads:
        thread.start()
    for number in range(files):
        readers[number].close()
        disk.open_read(str((number + 1) % files)).pread(0, 1)
    for thread in threads:
        thread.join()

    assert wrong == []
    assert open_descriptors(disk) == 0


def test_make_directory_creates_the_root_with_its_parents(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path / "x" / "y")

    disk.make_directory("z")

    assert (tmp_path / "x" / "y" / "z").is_dir()
    assert disk.root == tmp_path / "x" / "y"


def test_make_directory_makes_again_what_somebody_else_removed(disk: LocalDisk) -> None:
    disk.make_directory("a/b")
    (disk.root / "a" / "b").rmdir()

    disk.make_directory("a/b")

    assert disk.exists("a/b")
