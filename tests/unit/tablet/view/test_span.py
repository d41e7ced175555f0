"""Spans: runs that share a range of offsets read as one, in offset order."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pyarrow as pa

from penstock.log.batch_directory import BatchDirectory
from penstock.log.tail import Chunk, TailView
from penstock.tablet.view.ends import Ends
from penstock.tablet.view.span import RowBlock, Run, Span, in_order

SCHEMA = pa.schema([pa.field("0", pa.int64())])


def block(*offsets: int) -> RowBlock:
    return RowBlock(np.array(offsets, np.int64), pa.RecordBatch.from_arrays([pa.array(offsets)], schema=SCHEMA))


def read(blocks: Iterator[RowBlock]) -> list[int]:
    found: list[int] = []
    for one in blocks:
        assert one.offsets.tolist() == one.batch.column(0).to_pylist()
        found += one.offsets.tolist()
    return found


def run(start: int, sizes: list[int]) -> Run:
    batches, first = [], start
    for size in sizes:
        batches.append(pa.RecordBatch.from_arrays([pa.array(range(first, first + size))], schema=SCHEMA))
        first += size
    return Run(TailView(SCHEMA, start, first, tuple(map(Chunk, batches)), BatchDirectory.empty()), Ends())


def test_one_stream_passes_through() -> None:
    assert read(in_order([iter([block(1, 2), block(5)])])) == [1, 2, 5]


def test_no_stream_reads_as_nothing() -> None:
    assert read(in_order([])) == []
    assert read(in_order([iter([]), iter([])])) == []


def test_streams_merge_in_offset_order() -> None:
    random = Random(4)
    for _ in range(50):
        offsets = sorted(random.sample(range(100), 40))
        shares: list[list[int]] = [[], [], []]
        for offset in offsets:
            random.choice(shares).append(offset)
        streams = []
        for share in shares:
            cuts = sorted(random.randint(0, len(share)) for _ in range(3))
            pieces = [share[low:high] for low, high in zip([0, *cuts], [*cuts, len(share)], strict=True)]
            streams.append(iter([block(*piece) for piece in pieces if piece]))

        assert read(in_order(streams)) == offsets


def test_row_is_visible_after_it_begins_and_until_it_ends() -> None:
    span = run(10, [3, 2])
    span.ends.store(np.array([1, 3]), np.array([12, 20]), 5)

    def at(x: int) -> list[int]:
        return read(Span(10, 15, (span,)).visible(x, 0, SCHEMA))

    assert at(10) == []
    assert at(12) == [10, 11]
    assert at(13) == [10, 12]
    assert at(20) == [10, 12, 13, 14]
    assert at(21) == [10, 12, 14]


def test_scan_resumes_at_an_offset() -> None:
    span = Span(10, 15, (run(10, [3, 2]),))

    assert read(span.visible(15, 12, SCHEMA)) == [12, 13, 14]
    assert read(span.between(11, 14, SCHEMA)) == [11, 12, 13]


def test_run_all_of_whose_rows_ended_is_not_opened() -> None:
    history = run(10, [2])
    history.ends.store(np.array([0, 1]), np.array([12, 15]), 2)

    assert history.none_visible_at(16)
    assert not history.none_visible_at(15)
    assert history.none_visible_at(10)


def test_column_that_was_added_later_reads_null() -> None:
    wider = pa.schema([*SCHEMA, pa.field("1", pa.string())])

    (found,) = Span(0, 2, (run(0, [2]),)).visible(2, 0, wider)

    assert found.batch.to_pylist() == [{"0": 0, "1": None}, {"0": 1, "1": None}]


def test_projection_of_no_columns_still_counts_rows() -> None:
    (found,) = Span(0, 2, (run(0, [2]),)).visible(2, 0, pa.schema([]))

    assert found.batch.num_rows == 2
