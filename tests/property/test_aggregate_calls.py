"""Calls to an aggregating table that are committed as one group: as if each had come alone, in their order."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.open_table import OpenTableRig, open_tables, write_batch

from penstock.engine.commit.group import QueuedWrite
from penstock.engine.table.open_table import OpenTable
from penstock.errors import ArithmeticOverflowError
from penstock.model.node.calls import Operation, WriteCall, WriteResult
from penstock.model.schema.agg_mode import AggMode

DDL = (
    "id BIGINT, total BIGINT SUM, top DOUBLE MAX, n BIGINT COUNT, tiny TINYINT SUM, words STRING LISTAGG, "
    "last STRING LAST_VALUE, first STRING FIRST_VALUE_IGNORE_NULLS, PRIMARY KEY (id)"
)
COLUMNS = ("total", "top", "n", "tiny", "words", "last", "first")
SEEDS = 120
KEYS = 5


@pytest.fixture
def rig() -> Iterator[OpenTableRig]:
    with open_tables() as opened:
        yield opened


def some_row(random: Random, columns: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {
        "total": random.randint(-5, 5),
        "top": random.random(),
        "n": 1,
        "tiny": random.randint(-2, 2),
        "words": random.choice("abc"),
        "last": random.choice("abc"),
        "first": random.choice("abc"),
    }
    row = {name: None if random.random() < 0.2 else values[name] for name in columns}
    return {"id": random.randrange(KEYS), **row}


def batch_of(table: OpenTable, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    schema = pa.schema([table.info.schema.arrow_schema.field(name) for name in rows[0]])
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def queued(table: OpenTable, rows: list[dict[str, Any]], mode: str, number: int) -> QueuedWrite:
    call = WriteCall(
        table.info.table_id,
        table.info.schema_id,
        Operation.UPSERT,
        batch_of(table, rows),
        columns=tuple(list(rows[0])[1:]),
        agg_mode=AggMode.parse(mode),
        writer_id=number.to_bytes(16, "big"),
        sequence=0,
    )
    return table.route(call)


def rows_at(table: OpenTable, x: Mapping[int, int]) -> list[dict[str, Any]]:
    """Return the rows as of an offset in each bucket."""
    found = []
    for bucket, view in table.view.items():
        for block in view.scan(x.get(bucket.bucket, 0), table.schema.user_columns):
            found += block.batch.rename_columns(table.info.schema.names).to_pylist()
    return sorted(found, key=lambda row: row["id"])


def spans_of(write: QueuedWrite) -> dict[int, tuple[int, int]]:
    return {bucket.bucket: span for bucket, span in write.ranges.items()}


def commit_together(table: OpenTable, writes: list[QueuedWrite]) -> None:
    table.committer.run(lambda: table.committer.commit(table.committer.plan(writes)))


@pytest.mark.parametrize("first_seed", range(0, SEEDS, 20))
def test_group_of_calls_leaves_after_each_what_the_calls_alone_leave(first_seed: int, rig: OpenTableRig) -> None:
    for seed in range(first_seed, first_seed + 20):
        print(f"seed={seed}")
        random = Random(seed)
        alone, together = (rig.create(f"default.{name}{seed}", DDL, buckets=2) for name in ("alone", "together"))
        reached: dict[int, int] = {}
        for turn in range(4):
            mode = random.choice(("accumulate", "accumulate", "replace", "merge_state"))
            columns = list(COLUMNS) if random.random() < 0.5 else random.sample(COLUMNS, random.randint(1, 4))
            calls = [
                [some_row(random, columns) for _ in range(random.choice((1, 1, 2, 6)))]
                for _ in range(random.choice((1, 2, 8)))
            ]
            singles = [queued(alone, rows, mode, turn * 10 + n) for n, rows in enumerate(calls)]
            group = [queued(together, rows, mode, turn * 10 + n) for n, rows in enumerate(calls)]

            for write in singles:
                alone.committer.write(write)
            commit_together(together, group)

            assert [spans_of(write) for write in group] == [spans_of(write) for write in singles]
            assert [write.ignored for write in group] == [write.ignored for write in singles]
            for write in group:
                reached |= {bucket: end for bucket, (_, end) in spans_of(write).items()}
                assert rows_at(together, reached) == rows_at(alone, reached)


def test_call_that_overflows_fails_alone_in_its_group(rig: OpenTableRig) -> None:
    table = rig.create("default.t", "id BIGINT, v TINYINT SUM, PRIMARY KEY (id)", merge_engine="aggregate")
    write_batch(table, batch_of(table, [{"id": 0, "v": 50}, {"id": 1, "v": 50}]))
    results: dict[int, WriteResult | Exception] = {}
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        assert go.wait(30)

    def put(number: int) -> None:
        rows = [{"id": number % 2, "v": 100 if number == 3 else 10}, {"id": 7 + number, "v": 1}]
        try:
            results[number] = write_batch(table, batch_of(table, rows))
        except ArithmeticOverflowError as error:
            results[number] = error

    holder = threading.Thread(target=lambda: table.committer.run(hold))
    holder.start()
    assert held.wait(30)
    threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in (holder, *threads):
        thread.join()

    refused = results.pop(3)
    assert isinstance(refused, ArithmeticOverflowError)
    assert all(isinstance(result, WriteResult) and result.changes == 2 for result in results.values())
    sums = {row["id"]: row["v"] for row in rows_at(table, {0: table.view[min(table.view)].visible})}
    assert sums == {0: 90, 1: 80, **{7 + number: 1 for number in range(8) if number != 3}}
