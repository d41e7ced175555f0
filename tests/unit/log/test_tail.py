from collections.abc import Callable
from random import Random

import pyarrow as pa

from penstock.log.tail import CHUNK_ROWS_MAX, Tail, TailView
from penstock.model.place.change import BatchKind
from penstock.model.place.facts import BatchFacts

Rows = Callable[..., pa.RecordBatch]


def append(tail: Tail, batch: pa.RecordBatch) -> None:
    tail.append(BatchFacts(tail.end, batch.num_rows, timestamp_ms=tail.end, term=1, schema_id=1), batch)


def first_column(view: TailView) -> list[int]:
    blocks = range(view.block_count)
    return [value for i in blocks for value in view.read_block(i, ["0"])[0].to_pylist()]


def test_ten_thousand_rows_one_by_one_become_few_chunks(rows: Rows) -> None:
    source = rows(10_000)
    tail = Tail(source.schema, 50)
    for i in range(10_000):
        append(tail, source.slice(i, 1))
        if i % 7 == 0:
            tail.snapshot()

    view = tail.snapshot()

    assert first_column(view) == list(range(10_000))
    assert view.block_count <= 15
    assert len(view.directory) == 10_000
    assert (view.start, view.end, view.rows) == (50, 10_050, 10_000)


def test_snapshot_does_not_see_what_is_appended_later(rows: Rows) -> None:
    random = Random(5)
    tail = Tail(rows(0).schema, 0)
    views = []
    for _ in range(200):
        append(tail, rows(random.randint(1, 20), first=tail.end))
        views.append(tail.snapshot())

    for view in views:
        assert first_column(view) == list(range(view.end))


def test_chunks_grow_geometrically_up_to_the_limit(rows: Rows) -> None:
    source = rows(1000)
    tail = Tail(source.schema, 0)
    full: dict[int, pa.RecordBatch] = {}
    for _ in range(300):
        append(tail, source)
        view = tail.snapshot()
        for i, chunk in enumerate(view.chunks):
            assert chunk.num_rows <= CHUNK_ROWS_MAX
            # With another of half its size it would pass the limit: it is never copied again.
            assert i not in full or full[i] is chunk
            if 3 * chunk.num_rows > 2 * CHUNK_ROWS_MAX:
                full[i] = chunk

    assert view.block_count <= 300 // 32 + 7
    assert full


def test_large_batch_is_kept_as_it_is(rows: Rows) -> None:
    tail = Tail(rows(0).schema, 0)
    large = rows(CHUNK_ROWS_MAX + 1)
    append(tail, rows(2))
    append(tail, large)
    append(tail, rows(2))

    assert [chunk.num_rows for chunk in tail.snapshot().chunks] == [2, CHUNK_ROWS_MAX + 1, 2]
    assert tail.snapshot().chunks[1] is large


def test_batch_without_rows_is_kept_in_the_directory_only(rows: Rows) -> None:
    tail = Tail(rows(0).schema, 0)
    empty = BatchFacts(0, 0, timestamp_ms=1, term=1, schema_id=1, kind=BatchKind.EMPTY)
    tail.append(empty, None)
    tail.append(empty, rows(0))

    view = tail.snapshot()

    assert (view.block_count, view.rows, tail.end) == (0, 0, 0)
    assert [view.directory.facts(i) for i in range(2)] == [empty, empty]


def test_bytes_count_slices_not_their_parents(rows: Rows) -> None:
    parent = rows(100_000)
    tail = Tail(parent.schema, 0)
    append(tail, parent.slice(0, 50_000))
    append(tail, parent.slice(50_000, 50_000))

    assert 0.9 * parent.nbytes < tail.bytes < 1.1 * parent.nbytes


def test_nested_columns_survive_merging(wide_rows: Rows) -> None:
    batches = [wide_rows(count, seed=count) for count in (3, 1, 40, 2, 2, 9)]
    tail = Tail(batches[0].schema, 0)
    for batch in batches:
        append(tail, batch)

    assert pa.Table.from_batches(tail.snapshot().chunks) == pa.Table.from_batches(batches)
