"""A scan that is read a second time: the same rows at the same cut, whatever it reads and whoever reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock.errors import ClosedError, LeaseNotFoundError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from tests.scenarios.conftest import Connect

ROWS = 600
DDL = "id BIGINT, day STRING, v STRING, PRIMARY KEY (id, day)"


def through_duckdb(scan: penstock.Scan) -> list[int]:
    found = duckdb.sql("SELECT id FROM scan")
    assert found is not None
    return [id for (id,) in found.fetchall()]


WAYS: dict[str, Callable[[penstock.Scan], list[int]]] = {
    "for": lambda scan: [id for batch in scan for id in batch["id"].to_pylist()],
    "to_arrow": lambda scan: scan.to_arrow()["id"].to_pylist(),
    "to_pandas": lambda scan: list(scan.to_pandas()["id"]),
    "to_polars": lambda scan: scan.to_polars()["id"].to_list(),
    "to_duckdb": lambda scan: [id for (id,) in scan.to_duckdb().project("id").fetchall()],
    "pyarrow": lambda scan: pa.table(scan)["id"].to_pylist(),
    "reader": lambda scan: pa.RecordBatchReader.from_stream(scan).read_all()["id"].to_pylist(),
    "polars": lambda scan: pl.DataFrame(scan)["id"].to_list(),
    "duckdb": through_duckdb,
}


def fill(table: penstock.Table, v: str = "old") -> None:
    rows = [{"id": n, "day": ("mon", "tue", "wed")[n % 3], "v": v} for n in range(ROWS)]
    if table.info.keyed:
        table.upsert(rows)
    else:
        table.append(rows)


@pytest.fixture
def small_pages(connect: Connect) -> penstock.Connection:
    return connect(kv__scanner__page_bytes="1KB")


@pytest.fixture(params=["one bucket", "buckets", "partitions", "log table"])
def table(request: pytest.FixtureRequest, small_pages: penstock.Connection) -> penstock.Table:
    if request.param == "log table":
        made = small_pages.create_table("t", "id BIGINT, day STRING, v STRING", buckets=2)
    else:
        by = ["day"] if request.param == "partitions" else None
        made = small_pages.create_table("t", DDL, buckets=1 if request.param == "one bucket" else 2, partitioned_by=by)
    fill(made)
    return made


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_read_gives_all_rows_each_time(table: penstock.Table, way: str) -> None:
    with table.scan() as scan:
        read = WAYS[way]
        fill(table, "late")

        assert sorted(read(scan)) == list(range(ROWS))
        assert sorted(read(scan)) == list(range(ROWS))
        assert set(scan.to_arrow()["v"].to_pylist()) == {"old"}
    # DuckDB wraps the error of whoever exports to it in one of its own.
    with pytest.raises((ClosedError, duckdb.InvalidInputException), match="the scan is closed"):
        read(scan)


@pytest.mark.parametrize(
    "asked",
    [
        {"source": "log"},
        {"filter": "id < 300"},
        {"limit": 250},
        {"limit": 0},
        {"columns": ["id"]},
        {"buckets": 0},
        {"source": "snapshot"},
    ],
    ids=str,
)
def test_what_a_scan_reads_is_the_same_each_time(table: penstock.Table, asked: dict[str, Any]) -> None:
    if asked.get("source") == "snapshot" and not table.info.keyed:
        asked = {}
    if "buckets" in asked:
        cut = table.cut()
        asked = {"buckets": [max(cut, key=lambda bucket: cut[bucket])]}
    with table.scan(**asked) as scan:
        fill(table, "late")
        first = scan.to_arrow()
        assert (first.num_rows > 0) == (asked.get("limit") != 0)
        assert scan.to_arrow().equals(first)
        assert pa.Table.from_batches(list(scan), schema=scan.schema).equals(first)


def test_a_half_read_scan_starts_again(table: penstock.Table, small_pages: penstock.Connection) -> None:
    with table.scan() as scan:
        for batch in scan:
            first = batch
            break
        token = scan.resume_token

        assert sorted(scan.to_arrow()["id"].to_pylist()) == list(range(ROWS))
        next(iter(scan))
        assert sorted(id for batch in scan for id in batch["id"].to_pylist()) == list(range(ROWS))
    with small_pages.resume_scan(token) as rest:
        for _ in range(2):
            assert sorted(first["id"].to_pylist() + rest.to_arrow()["id"].to_pylist()) == list(range(ROWS))


def test_scans_inside_each_other_do_not_take_rows_from_each_other(table: penstock.Table) -> None:
    with table.scan(limit=100) as scan:
        pairs = [(a, b) for outer in scan for a in outer["id"].to_pylist() for b in scan.to_arrow()["id"].to_pylist()]

    assert len(set(pairs)) == len(pairs) == 10_000


def test_a_scan_under_a_lease_is_read_as_often_as_the_lease_lasts(
    table: penstock.Table, small_pages: penstock.Connection
) -> None:
    lease = small_pages.acquire_lease("job", table.cut())
    with table.new_scan().lease(lease).execute() as scan:
        fill(table, "late")
        for _ in range(2):
            rows = scan.to_arrow()
            assert sorted(rows["id"].to_pylist()) == list(range(ROWS))
            assert set(rows["v"].to_pylist()) == {"old"}
        lease.drop()
        with pytest.raises(LeaseNotFoundError):
            scan.to_arrow()


def test_an_open_scan_keeps_its_cut_between_readings(connect: Connect) -> None:
    table = connect(kv__scanner__page_bytes="1KB").create_table(
        "t", DDL, properties={"log.retention": "1ms", "log.retention-bytes": 1}
    )
    fill(table)
    scan = table.scan()
    assert scan.to_arrow().num_rows == ROWS
    (x,) = scan.log_offsets.values()
    table.truncate()

    assert x in table.stats().buckets[0].pins.values()
    assert scan.to_arrow().num_rows == ROWS
    scan.close()
    assert x not in table.stats().buckets[0].pins.values()


def test_a_cut_that_is_gone_is_an_error_and_never_an_empty_result(connect: Connect) -> None:
    connection = connect(kv__scanner__page_bytes="1KB")
    table = connection.create_table("t", "id BIGINT, day STRING, v STRING")
    fill(table)
    scan = table.scan()
    assert scan.to_arrow().num_rows == ROWS
    table.truncate()

    with pytest.raises(OffsetOutOfRangeError, match="base"):
        scan.to_arrow()
    with pytest.raises(OffsetOutOfRangeError, match="base"):
        list(scan)


def test_a_reader_of_batches_has_one_page_asked_for_ahead(connect: Connect) -> None:
    connection = connect(kv__scanner__page_bytes="1KB")
    table = connection.create_table("t", DDL)
    fill(table)
    with table.scan() as scan:
        batches = iter(scan)
        for taken in range(1, 6):
            next(batches)
            (session,) = connection.list_scanners()
            assert session.pages <= taken + 1


def test_a_change_stream_goes_on_where_it_was_left_and_a_closed_one_says_so(table: penstock.Table) -> None:
    stream = table.changes()
    first = next(stream).num_rows
    for batch in stream:
        first += batch.num_rows
        break
    assert first + sum(batch.num_rows for batch in stream) == ROWS

    stream.close()
    with pytest.raises(ClosedError, match="the stream is closed; open another at its position"):
        list(stream)
