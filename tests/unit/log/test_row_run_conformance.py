"""What every run of rows promises, in memory, in a dense file, in a sparse one."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from penstock.log.batch_directory import DirectoryBuilder
from penstock.log.chunk_cache import ChunkCache
from penstock.log.data_file import DataFile, write_data_file
from penstock.log.file_pool import FilePool
from penstock.log.row_run import Int64s, RowRun
from penstock.log.settings import LogSettings
from penstock.log.tail import Tail
from penstock.model.place.bucket import BucketId
from penstock.model.place.facts import BatchFacts
from penstock.testing.faulty_disk import FaultyDisk

Rows = Callable[..., pa.RecordBatch]
START = 1000
COUNT = 500


@dataclass
class Case:
    run: RowRun
    source: pa.RecordBatch
    offsets: Int64s


def dense_case(run: RowRun, source: pa.RecordBatch) -> Case:
    return Case(run, source, np.arange(START, START + COUNT))


def pieces(source: pa.RecordBatch) -> list[tuple[BatchFacts, pa.RecordBatch]]:
    random = Random(3)
    cut, found = 0, []
    while cut < COUNT:
        length = min(random.choice((1, 2, 3, 70)), COUNT - cut)
        facts = BatchFacts(START + cut, length, timestamp_ms=cut, term=1, schema_id=1)
        found.append((facts, source.slice(cut, length)))
        cut += length
    return found


def tail_case(disk: FaultyDisk, source: pa.RecordBatch) -> Case:  # disk: all makers are called alike
    assert not disk.crashed
    tail = Tail(source.schema, START)
    for facts, batch in pieces(source):
        tail.append(facts, batch)
    return dense_case(tail.snapshot(), source)


def file_case(disk: FaultyDisk, source: pa.RecordBatch, offsets: Int64s | None) -> DataFile:
    builder = DirectoryBuilder()
    for facts, _ in pieces(source):
        builder.append(facts)
    batches = [batch for _, batch in pieces(source)]
    cuts = np.cumsum([batch.num_rows for batch in batches])[:-1]
    write_data_file(
        disk,
        "b/0.dat",
        bucket=BucketId(1, 0, 2),
        schema_id=1,
        schema=source.schema,
        start=START,
        end=START + COUNT if offsets is None else int(offsets[-1]) + 10,
        blocks=batches,
        offsets=None if offsets is None else np.split(offsets, cuts),
        directory=builder.snapshot(),
        settings=LogSettings(block_rows=64),
    )
    return DataFile(FilePool(disk, 4), "b/0.dat", ChunkCache(1 << 20))


def dense_file_case(disk: FaultyDisk, source: pa.RecordBatch) -> Case:
    return dense_case(file_case(disk, source, None), source)


def sparse_file_case(disk: FaultyDisk, source: pa.RecordBatch) -> Case:
    offsets = START + np.cumsum(np.random.default_rng(1).integers(1, 9, COUNT))
    return Case(file_case(disk, source, offsets), source, offsets)


def far_sparse_file_case(disk: FaultyDisk, source: pa.RecordBatch) -> Case:
    offsets = START + np.cumsum(np.random.default_rng(1).integers(1, 1 << 40, COUNT))
    return Case(file_case(disk, source, offsets), source, offsets)


@pytest.fixture(params=[tail_case, dense_file_case, sparse_file_case, far_sparse_file_case])
def case(request: pytest.FixtureRequest, disk: FaultyDisk, wide_rows: Rows) -> Case:
    made: Case = request.param(disk, wide_rows(COUNT, seed=9))
    return made


def test_run_says_what_it_covers(case: Case) -> None:
    run = case.run

    assert (run.start, run.rows) == (START, COUNT)
    assert run.dense == (run.end - run.start == COUNT)
    assert run.schema == case.source.schema
    assert len(run.directory) > 0


def test_blocks_in_order_are_the_rows(case: Case) -> None:
    run = case.run
    names = run.schema.names

    blocks = [pa.RecordBatch.from_arrays(run.read_block(i, names), names) for i in range(run.block_count)]

    assert pa.Table.from_batches(blocks).to_pydict() == case.source.to_pydict()
    assert [len(block) for block in blocks] == [run.block_rows(i) for i in range(run.block_count)]
    assert np.diff(run.block_starts).tolist() == [len(block) for block in blocks]


@pytest.mark.parametrize("use_cache", [False, True])
def test_columns_come_in_the_order_asked_for(case: Case, use_cache: bool) -> None:
    for _ in range(2):
        found = case.run.read_block(1, ["_prev", "3", "2", "3"], use_cache=use_cache)
        start, rows = int(case.run.block_starts[1]), case.run.block_rows(1)
        assert found == [case.source.column(name).slice(start, rows) for name in ("_prev", "3", "2", "3")]


def test_offsets_of_blocks_are_those_of_the_rows(case: Case) -> None:
    offsets = np.concatenate([case.run.offsets_of_block(i) for i in range(case.run.block_count)])

    assert offsets.tolist() == case.offsets.tolist()
    assert offsets.dtype == np.int64


def test_row_of_an_offset_is_found_or_is_minus_one(case: Case) -> None:
    known = {int(offset): row for row, offset in enumerate(case.offsets)}
    asked = np.concatenate([case.offsets[::-3], case.offsets + 1, np.array([-1, 0, START - 1, START, 1 << 62])])

    rows = case.run.row_of(asked)

    assert rows.tolist() == [known.get(int(offset), -1) for offset in asked]


@pytest.mark.parametrize("count", [0, 1, 3, 700])
def test_take_gathers_rows_in_any_order_with_repeats(case: Case, count: int) -> None:
    rows = np.random.default_rng(count).integers(0, COUNT, count)
    names = case.run.schema.names

    for wanted in (rows, np.sort(rows)):
        found = case.run.take(wanted, names)
        assert found == case.source.take(pa.array(wanted)).columns


def test_unknown_column_is_told(case: Case) -> None:
    assert case.run.has_column("0")
    assert case.run.has_column("_op")
    assert not case.run.has_column("99")
