"""Truncating a log table: new readers begin after it, those who read go on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import OffsetOutOfRangeError

DDL = "id BIGINT, v STRING"
LARGE = "x" * 20_000


@pytest.fixture
def table(connection: penstock.Connection) -> penstock.Table:
    return connection.create_table("shop.t", DDL, buckets=2)


def put(table: penstock.Table, ids: range, v: str = "a") -> None:
    table.append([{"id": number, "v": v} for number in ids])


def ids(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return sorted(number for batch in batches for number in batch.column("id").to_pylist())


def test_truncate_says_how_many_rows_went(table: penstock.Table) -> None:
    put(table, range(20))

    assert table.truncate().rows == 20
    assert table.truncate().rows == 0
    assert table.stats().live_rows == 0


def test_truncation_is_there_for_new_readers_although_others_read_what_was(table: penstock.Table) -> None:
    put(table, range(600), LARGE)
    stream = table.changes()
    cut = table.cut()
    seen = ids([next(stream)])

    assert table.truncate().rows == 600
    put(table, range(1000, 1010))

    for read in (table.scan(), table.changes(), table.snapshot_and_follow(timeout="0ms")):
        assert ids(read) == list(range(1000, 1010))
    assert {offsets.base for offsets in table.offsets().values()} == set(cut.values())
    assert table.stats().live_rows == 10
    with pytest.raises(OffsetOutOfRangeError):
        table.changes(start=dict.fromkeys(cut, 0))
    assert sorted(seen + ids(stream)) == list(range(600))
    assert ids(table.changes(start=stream.position)) == list(range(1000, 1010))


def test_what_was_truncated_goes_with_its_last_reader(table: penstock.Table) -> None:
    put(table, range(600), LARGE)
    with table.changes() as stream:
        next(stream)
        table.truncate()
        held = table.stats().bytes
    table.truncate()

    assert table.stats().bytes < held / 10


def test_a_lease_keeps_what_is_truncated_also_through_a_restart(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.create_table("t", DDL, buckets=2)
        put(table, range(20))
        connection.acquire_lease("whole", table.cut(), duration="1h")
        assert table.truncate().rows == 20
        put(table, range(100, 105))
    for _ in range(2):
        with penstock.connect(tmp_path / "data") as connection:
            table = connection.table("t")
            assert ids(table.scan()) == ids(table.changes()) == list(range(100, 105))
            held = table.scan(source="log", lease="whole")
            assert ids(held) == list(range(20))
