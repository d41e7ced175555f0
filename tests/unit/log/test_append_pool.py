import errno
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.errors import BucketFailedError
from penstock.log.append_pool import AppendPool, PooledFile
from penstock.log.segment import SegmentWriter, read_segment
from penstock.model.place.bucket import BucketId
from penstock.model.place.facts import BatchFacts
from penstock.testing.faulty_disk import FaultyDisk

Rows = Callable[..., pa.RecordBatch]


def files(pool: AppendPool, count: int) -> list[PooledFile]:
    return [pool.create(str(number)) for number in range(count)]


def test_more_files_than_the_cap_are_written_and_only_so_many_are_open(disk: FaultyDisk) -> None:
    pool = AppendPool(disk, 3)
    made = files(pool, 10)

    for round in range(4):
        for number, file in enumerate(made):
            assert file.append(b"%d%d" % (round, number)) == 2 * (round + 1)
            assert pool.open_count == 3

    for number in range(10):
        assert disk.read(str(number)) == b"".join(b"%d%d" % (round, number) for round in range(4))


def test_what_was_appended_to_a_parked_file_survives_a_power_loss(disk: FaultyDisk) -> None:
    pool = AppendPool(disk, 1)
    first, second = files(pool, 2)
    disk.sync_directory("")

    first.append(b"first")
    second.append(b"second")

    for seed in range(20):
        assert disk.after_power_loss(seed).read("0") == b"first"
    first.sync()
    second.sync()
    assert disk.after_power_loss(0).read("1") == b"second"


def test_file_that_is_idle_is_parked_and_gives_back_what_it_reserved(disk: FaultyDisk) -> None:
    pool = AppendPool(disk, 10)
    idle, busy = files(pool, 2)
    for file in (idle, busy):
        file.preallocate(1000)
        file.append(b"abc")

    assert pool.park_idle() == 0
    busy.append(b"d")
    assert pool.park_idle() == 1

    assert pool.open_count == 1
    assert disk.size("0") == 3
    assert disk.size("1") == 1000
    assert idle.append(b"de") == 5
    assert disk.read("0") == b"abcde"


def test_sync_that_failed_while_parking_is_told_to_the_owner(disk: FaultyDisk) -> None:
    pool = AppendPool(disk, 10)
    file = pool.create("a")
    file.append(b"abc")
    pool.park_idle()
    disk.fail_when(lambda operation: operation.kind == "sync", errno.EIO, times=1)

    assert pool.park_idle() == 0

    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    assert pool.park_idle() == 0


def test_file_that_cannot_be_opened_again_refuses_one_append_and_takes_the_next(disk: FaultyDisk) -> None:
    pool = AppendPool(disk, 1)
    first, second = files(pool, 2)
    first.append(b"a")
    second.append(b"b")
    disk.fail_when(lambda operation: operation.kind == "open_append", errno.EMFILE, times=1)

    with pytest.raises(OSError, match="Too many open files"):
        first.append(b"c")

    assert first.append(b"c") == 2


def test_closed_file_is_not_opened_again(disk: FaultyDisk) -> None:
    pool = AppendPool(disk, 1)
    first, _ = files(pool, 2)
    first.close()
    first.close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        first.append(b"a")
    with pytest.raises(OSError, match="Bad file descriptor"):
        first.sync()


def test_many_owners_at_once_lose_nothing(disk: FaultyDisk) -> None:
    pool = AppendPool(disk, 2)
    made = files(pool, 6)

    def write(file: PooledFile) -> None:
        for number in range(200):
            file.append(b"%04d" % number)
            if number % 7 == 0:
                file.sync()

    writers = [threading.Thread(target=write, args=(file,)) for file in made]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert {disk.read(str(number)) for number in range(6)} == {b"".join(b"%04d" % number for number in range(200))}


def test_group_is_taken_back_from_a_segment_that_was_parked_after_its_append(disk: FaultyDisk, rows: Rows) -> None:
    disk.make_directory("b")
    pool = AppendPool(disk, 1)
    writers = [
        SegmentWriter.create(
            disk,
            f"b/{number}",
            bucket=BucketId(1, 0, number),
            base_offset=0,
            schema_id=5,
            schema=rows(0).schema,
            preallocate_bytes=1 << 16,
            pool=pool,
        )
        for number in range(2)
    ]
    facts = [BatchFacts(start, 3, timestamp_ms=1, term=1, schema_id=5) for start in (0, 3)]
    sizes = []
    for writer in writers:
        writer.append(facts[0], rows(3))
        writer.sync()
        sizes.append(writer.size)
    for writer in writers:
        writer.append(facts[1], rows(3))
    for writer in writers:
        writer.sync()

    for writer, size in zip(writers, sizes, strict=True):
        writer.rollback(size)

    for number in range(2):
        segment = read_segment(disk, f"b/{number}", last=True, durable_end=None)
        assert segment is not None
        assert segment.end_offset == 3


def test_segment_whose_parking_failed_takes_no_more(disk: FaultyDisk, rows: Rows) -> None:
    disk.make_directory("b")
    pool = AppendPool(disk, 8)
    writer = SegmentWriter.create(
        disk,
        "b/0",
        bucket=BucketId(1, 0, 0),
        base_offset=0,
        schema_id=5,
        schema=rows(0).schema,
        preallocate_bytes=0,
        pool=pool,
    )
    writer.append(BatchFacts(0, 3, timestamp_ms=1, term=1, schema_id=5), rows(3))
    pool.park_idle()
    disk.fail_when(lambda operation: operation.kind == "sync", errno.EIO, times=1)
    pool.park_idle()

    with pytest.raises(BucketFailedError):
        writer.sync()
