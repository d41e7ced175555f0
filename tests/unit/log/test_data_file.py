import errno
from collections.abc import Callable, Iterator
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from penstock.codec.stored.framed import frame
from penstock.errors import CorruptionError, InvalidError, UnsupportedError
from penstock.log.batch_directory import BatchDirectory, DirectoryBuilder
from penstock.log.chunk_cache import ChunkCache
from penstock.log.data_file import DataFile, DataFileInfo, write_data_file
from penstock.log.file_pool import FilePool
from penstock.log.row_run import Int64s
from penstock.log.settings import LogSettings
from penstock.model.place.bucket import BucketId
from penstock.model.place.facts import BatchFacts
from penstock.testing.faulty_disk import FaultyDisk

Rows = Callable[..., pa.RecordBatch]
PATH = "b/0.dat"


def directory_of(rows: int) -> BatchDirectory:
    builder = DirectoryBuilder()
    builder.append(BatchFacts(0, rows, timestamp_ms=7, term=1, schema_id=5, columns=(0, 1)))
    return builder.snapshot()


def write(
    disk: FaultyDisk, *batches: pa.RecordBatch, offsets: list[Int64s] | None = None, block_rows: int = 16
) -> DataFileInfo:
    rows = sum(batch.num_rows for batch in batches)
    return write_data_file(
        disk,
        PATH,
        bucket=BucketId(1, 2, 3),
        schema_id=5,
        schema=batches[0].schema,
        start=0,
        end=rows if offsets is None else 1000,
        blocks=batches,
        offsets=offsets,
        directory=directory_of(rows),
        settings=LogSettings(block_rows=block_rows),
        live_rows=rows - 1,
    )


def open_file(disk: FaultyDisk, cache: ChunkCache | None = None) -> DataFile:
    return DataFile(FilePool(disk, 4), PATH, cache or ChunkCache(1 << 20))


def read_all(file: DataFile) -> pa.Table:
    names = file.schema.names
    file.offset_array()
    blocks = [pa.RecordBatch.from_arrays(file.read_block(i, names), names) for i in range(file.block_count)]
    return pa.Table.from_batches(blocks)


def test_facts_come_back(disk: FaultyDisk, rows: Rows) -> None:
    info = write(disk, rows(40))

    file = open_file(disk)

    assert file.info == info
    assert (info.bucket, info.schema_id, info.start, info.end) == (BucketId(1, 2, 3), 5, 0, 40)
    assert (info.rows, info.live_rows, info.min_offset, info.max_offset, info.dense) == (40, 39, 0, 39, True)
    assert info.size_bytes == disk.size(PATH)
    assert file.directory.facts(0) == directory_of(40).facts(0)
    assert file.block_min_offset.tolist() == [0, 16, 32]
    assert file.block_max_offset.tolist() == [15, 31, 39]


@pytest.mark.parametrize("sizes", [(40,), (16, 16, 8), (1,) * 40, (15, 2, 23), (3, 0, 37)])
def test_batches_of_any_size_become_aligned_blocks(disk: FaultyDisk, rows: Rows, sizes: tuple[int, ...]) -> None:
    source = rows(40)
    starts = np.cumsum([0, *sizes])

    write(disk, *(source.slice(int(start), size) for start, size in zip(starts, sizes, strict=False)))

    file = open_file(disk)
    assert file.block_starts.tolist() == [0, 16, 32, 40]
    assert read_all(file).to_pydict() == source.to_pydict()


def test_sparse_file_keeps_its_offsets(disk: FaultyDisk, rows: Rows) -> None:
    offsets = np.arange(40) * 3 + 5

    info = write(disk, rows(30), rows(10, first=30), offsets=[offsets[:30], offsets[30:]])

    file = open_file(disk)
    assert (info.dense, info.start, info.end, info.min_offset, info.max_offset) == (False, 0, 1000, 5, 122)
    assert file.offset_array().tolist() == offsets.tolist()
    assert file.schema == rows(0).schema
    assert file.has_column("_offset")
    assert file.take(np.array([39, 0]), ["_offset"])[0].to_pylist() == [122, 5]


@pytest.mark.parametrize("offsets", [None, []])
def test_file_without_rows(disk: FaultyDisk, rows: Rows, offsets: list[Int64s] | None) -> None:
    info = write_data_file(
        disk,
        PATH,
        bucket=BucketId(1, 2, 3),
        schema_id=5,
        schema=rows(0).schema,
        start=7,
        end=7,
        blocks=[],
        offsets=offsets,
        directory=BatchDirectory.empty(),
        settings=LogSettings(),
    )

    file = open_file(disk)

    assert (info.rows, info.min_offset, file.block_count) == (0, -1, 0)
    assert file.offset_array().tolist() == []
    assert file.row_of(np.array([6, 7])).tolist() == [-1, -1]
    assert [len(column) for column in file.take(np.zeros(0, dtype=np.int64), ["0", "1"])] == [0, 0]


def test_two_columns_are_read_without_the_others(disk: FaultyDisk, rows: Rows) -> None:
    write(disk, rows(40))
    file = open_file(disk)
    places = file._footer
    column = file.schema.get_field_index("1")
    for block in range(3):
        disk.flip_bit(PATH, int(places.chunk_position[block, column]) + 9, 3)

    assert [len(column) for column in file.read_block(0, ["0", "_prev"])] == [16, 16]
    with pytest.raises(CorruptionError, match=f"file={PATH} column=1 block=2"):
        file.read_block(2, ["0", "1"])


def test_every_flipped_bit_is_found(disk: FaultyDisk, rows: Rows) -> None:
    random = Random(4)
    write(disk, rows(20), offsets=[np.arange(20) * 2])
    found_where = set()
    for position in range(disk.size(PATH)):
        bit = random.randrange(8)
        disk.flip_bit(PATH, position, bit)
        with pytest.raises(CorruptionError) as caught:
            read_all(open_file(disk))
        assert caught.value.facts["file"] == PATH
        found_where.add(caught.value.facts.get("column"))
        disk.flip_bit(PATH, position, bit)
    assert found_where == {None, "0", "1", "_op", "_prev", "_offset"}
    assert read_all(open_file(disk)).num_rows == 20


def test_every_truncation_is_found(disk: FaultyDisk, rows: Rows) -> None:
    write(disk, rows(20))
    for size in range(disk.size(PATH) - 1, -1, -1):
        disk.truncate_file(PATH, size)
        with pytest.raises(CorruptionError, match=f"file={PATH}"):
            open_file(disk)


def test_newer_version_is_refused_by_name(disk: FaultyDisk) -> None:
    file = disk.create(PATH)
    file.append(frame(b"PNDF", 2, bytes(46)))

    with pytest.raises(UnsupportedError, match=f"upgrade file={PATH} version=2 supported=1"):
        open_file(disk)


def test_file_is_durable_when_written(disk: FaultyDisk, rows: Rows) -> None:
    write(disk, rows(40))

    for seed in range(30):
        assert read_all(open_file(disk.after_power_loss(seed))).to_pydict() == rows(40).to_pydict()


def test_error_at_any_operation_leaves_no_file(disk: FaultyDisk, rows: Rows) -> None:
    before = disk.operations
    write(disk, rows(40))
    steps = disk.operations - before
    disk.remove(PATH)
    assert steps >= 6

    for step in range(steps):
        disk.fail_at(disk.operations + step, errno.ENOSPC, done=0.5)
        with pytest.raises(OSError, match="28"):
            write(disk, rows(40))
        assert not disk.exists(PATH), step


def test_source_that_fails_leaves_no_file(disk: FaultyDisk, rows: Rows) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield rows(20)
        raise CorruptionError("the source is damaged")

    with pytest.raises(CorruptionError, match="source"):
        write_data_file(
            disk,
            PATH,
            bucket=BucketId(1, 2, 3),
            schema_id=5,
            schema=rows(0).schema,
            start=0,
            end=40,
            blocks=broken(),
            offsets=None,
            directory=directory_of(40),
            settings=LogSettings(block_rows=16),
        )

    assert not disk.exists(PATH)


def test_read_error_is_passed_on_and_passes(disk: FaultyDisk, rows: Rows) -> None:
    write(disk, rows(40))
    file = open_file(disk)
    disk.fail_reads_when(lambda _: True, errno.EIO, times=1)

    with pytest.raises(OSError, match="5"):
        file.read_block(0, ["0"])

    assert len(file.read_block(0, ["0"])[0]) == 16


def test_take_keeps_chunks_at_any_cost_and_a_scan_only_where_there_is_room(disk: FaultyDisk, rows: Rows) -> None:
    write(disk, rows(40))
    cache = ChunkCache(1 << 20)
    file = open_file(disk, cache)
    read_all(file)
    assert cache.count > 0
    file.close()

    cache.put(("other", 0, "0"), pa.array(bytes(1 << 19), pa.uint8()))
    read_all(file)
    assert cache.count == 1
    file.take(np.array([0, 39]), ["0", "1"])
    assert cache.count == 5

    cache.drop("other")
    file.close()
    file.close()
    assert cache.count == 0


def test_chunks_are_checked_each_time_they_come_from_the_disk(disk: FaultyDisk, rows: Rows) -> None:
    write(disk, rows(40))
    file = open_file(disk, ChunkCache(0))
    file.read_block(0, ["0"])

    disk.flip_bit(PATH, 64 + 8, 1)

    with pytest.raises(CorruptionError, match="column=0 block=0"):
        file.read_block(0, ["0"])


@pytest.mark.parametrize("setting", ["block_rows", "open_files_max", "cache_bytes_max"])
def test_settings_out_of_range_are_refused(setting: str) -> None:
    with pytest.raises(InvalidError, match=f"setting={setting}"):
        LogSettings(**{setting: -1})
