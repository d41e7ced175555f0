import threading
from random import Random

import pytest

from penstock.log.file_pool import FilePool
from penstock.runtime.disk import ReadFile
from penstock.testing.faulty_disk import FaultyDisk


class CountingDisk(FaultyDisk):
    """A disk that remembers which of its files are open for reading."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[CountedFile] = []
        self.gate: threading.Event | None = None
        self.entered = threading.Event()

    def open_read(self, path: str) -> "CountedFile":  # type: ignore[override]
        file = CountedFile(self, super().open_read(path))
        self.open.append(file)
        return file


class CountedFile:
    def __init__(self, disk: CountingDisk, file: ReadFile) -> None:
        self._disk = disk
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    def pread(self, position: int, length: int) -> memoryview:
        if self._disk.gate is not None:
            self._disk.entered.set()
            assert self._disk.gate.wait(10)
        assert self in self._disk.open
        return self._file.pread(position, length)

    def close(self) -> None:
        self._disk.open.remove(self)
        self._file.close()


@pytest.fixture
def counting() -> CountingDisk:
    disk = CountingDisk()
    for i in range(10):
        disk.create(f"{i}").append(b"%d content" % i)
    return disk


def test_file_stays_open_between_reads(counting: CountingDisk) -> None:
    pool = FilePool(counting, 3)

    assert bytes(pool.pread("4", 0, 3)) == b"4 c"
    assert pool.size("4") == 9
    assert bytes(pool.pread("4", 7, 30)) == b"nt"

    assert len(counting.open) == 1


def test_least_recently_used_file_is_closed_first(counting: CountingDisk) -> None:
    pool = FilePool(counting, 3)
    for path in "0123":
        pool.pread(path, 0, 1)
    pool.pread("1", 0, 1)
    pool.pread("4", 0, 1)
    opened = len(counting.open)

    pool.pread("1", 0, 1)

    assert (opened, len(counting.open), pool.open_count) == (3, 3, 3)
    assert bytes(counting.open[0].pread(0, 1)) == b"1"


def test_file_in_use_is_closed_when_its_reader_lets_go(counting: CountingDisk) -> None:
    pool = FilePool(counting, 3)
    counting.gate = threading.Event()
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.append(bytes(pool.pread("7", 0, 1))))
    reader.start()
    assert counting.entered.wait(10)

    pool.drop("7")

    assert len(counting.open) == 1
    counting.gate.set()
    reader.join(10)
    assert seen == [b"7"]
    assert counting.open == []


def test_close_and_drop_close_files(counting: CountingDisk) -> None:
    pool = FilePool(counting, 5)
    for path in "012":
        pool.pread(path, 0, 1)

    pool.drop("1")
    pool.drop("1")
    assert len(counting.open) == 2
    pool.close()
    assert counting.open == []


def test_many_threads_read_the_right_bytes_under_a_small_cap(counting: CountingDisk) -> None:
    pool = FilePool(counting, 2)
    wrong: list[str] = []

    def work(seed: int) -> None:
        random = Random(seed)
        for _ in range(300):
            path = str(random.randrange(10))
            if random.random() < 0.1:
                pool.drop(path)
            elif bytes(pool.pread(path, 0, 1)) != path.encode():
                wrong.append(path)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert wrong == []
    assert len(counting.open) == pool.open_count <= 2
    pool.close()
    assert counting.open == []
