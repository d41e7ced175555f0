"""Scanning, as users meet it: one cut, each row once, resumable anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock.errors import (
    ClosedError,
    InvalidError,
    InvalidScanRequestError,
    LimitError,
    OffsetOutOfRangeError,
    TableNotFoundError,
    TooManyScannersError,
    UnknownOrExpiredScannerError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from tests.scenarios.conftest import Connect

ROWS = 5_000


def fill(connection: penstock.Connection, buckets: int = 3) -> penstock.Table:
    table = connection.create_table("shop.t", "id BIGINT, v STRING, n INT, PRIMARY KEY (id)", buckets=buckets)
    table.upsert({"id": range(ROWS), "v": [f"value {n}" for n in range(ROWS)], "n": [n % 7 for n in range(ROWS)]})
    return table


@pytest.fixture
def small_pages(connect: Connect) -> penstock.Connection:
    connection = connect(kv__scanner__page_bytes="4KB")
    connection.create_database("shop")
    return connection


@pytest.fixture
def table(small_pages: penstock.Connection) -> penstock.Table:
    return fill(small_pages)


def ids(batches: Any) -> list[int]:
    return [n for batch in batches for n in batch.column("id").to_pylist()]


def test_a_scan_gives_each_row_once_in_many_batches(table: penstock.Table) -> None:
    batches = list(table.scan())

    assert sorted(ids(batches)) == list(range(ROWS))
    assert len(batches) > 10
    assert all(batch.schema == table.schema for batch in batches)


def test_a_scan_sees_its_cut_whatever_is_written_meanwhile(table: penstock.Table) -> None:
    scan = table.scan()
    offsets = scan.log_offsets
    first = next(scan)
    table.upsert([{"id": n, "v": "late", "n": -1} for n in range(0, ROWS, 2)])
    table.delete(list(range(1, ROWS, 2)))

    rows = pa.Table.from_batches([first, *scan])

    assert sorted(rows["id"].to_pylist()) == list(range(ROWS))
    assert "late" not in rows["v"].to_pylist()
    assert sum(offsets.values()) == ROWS
    assert sorted(ids(table.scan(as_of=offsets))) == list(range(ROWS))
    assert sorted(ids(table.scan())) == list(range(0, ROWS, 2))


def test_projection_filter_and_limit_go_together(table: penstock.Table) -> None:
    scan = (
        table.new_scan()
        .with_source(penstock.ScanSource.LIVE_KV)
        .select(["n", "id"])
        .filter((penstock.col("n") == 3) & (penstock.col("id") < 1_000))
        .limit(50)
        .buckets([0, 2])
        .lease(None)
        .execute()
    )

    rows = scan.to_arrow()

    assert rows.column_names == ["n", "id"]
    assert rows.num_rows == 50
    assert set(rows["n"].to_pylist()) == {3}
    assert {bucket.bucket for bucket in scan.log_offsets} == {0, 2}
    assert table.scan(filter="n = 99").to_arrow().num_rows == 0
    assert table.scan(limit=0).to_arrow().num_rows == 0
    assert table.scan(limit=ROWS * 2).to_arrow().num_rows == ROWS


def test_a_scan_resumes_by_token_at_any_batch(small_pages: penstock.Connection, table: penstock.Table) -> None:
    scan = table.scan(columns=["id"], filter="n <> 3")
    seen = ids([next(scan), next(scan), next(scan)])
    token = scan.resume_token
    scan.close()
    table.upsert([{"id": ROWS + n, "v": "late", "n": 0} for n in range(100)])

    rest = small_pages.resume_scan(token)

    assert rest.log_offsets == scan.log_offsets
    everything = seen + ids(rest)
    assert sorted(everything) == [n for n in range(ROWS) if n % 7 != 3]
    assert len(everything) == len(set(everything))


def test_a_killed_session_is_not_noticed_by_the_reader(small_pages: penstock.Connection, table: penstock.Table) -> None:
    seen: list[int] = []
    kills = 0

    for batch in table.scan(limit=ROWS * 2):
        seen += batch.column("id").to_pylist()
        for scanner in small_pages.list_scanners():
            small_pages.kill_scanner(scanner.scanner_id)
            kills += 1

    assert sorted(seen) == list(range(ROWS))
    assert kills > 3


def test_sessions_are_listed_and_gone_when_scans_are(small_pages: penstock.Connection, table: penstock.Table) -> None:
    with table.scan(limit=ROWS) as scan:
        next(scan)
        (info,) = small_pages.list_scanners()
        assert info.bucket == scan.bucket
        assert info.log_offset == scan.log_offsets[scan.bucket]
    assert small_pages.list_scanners() == []
    with pytest.raises(UnknownOrExpiredScannerError):
        small_pages.kill_scanner(info.scanner_id)


def test_low_level_pages_are_called_by_number(small_pages: penstock.Connection, table: penstock.Table) -> None:
    with small_pages.scanner(table, 0, page_bytes="2KB", columns=["id"]) as scanner:
        page = scanner.open()
        assert page.log_offset == table.cut()[penstock.TableBucket("shop.t", None, 0)]
        assert page.scanner_id == scanner.scanner_id
        seen, number = page.batch.column("id").to_pylist(), 0
        while page.has_more:
            number += 1
            page = scanner.next(number)
            assert scanner.next(number).batch.equals(page.batch)
            seen += page.batch.column("id").to_pylist()
            if number == 2:
                with pytest.raises(InvalidScanRequestError):
                    scanner.next(9)
    assert sorted(seen) == sorted(ids(table.scan(buckets=[0])))
    with pytest.raises(LimitError, match="ask for less"):
        small_pages.scanner(table, 0, page_bytes="1GB").open()


def test_an_empty_bucket_opens_no_session(small_pages: penstock.Connection) -> None:
    empty = small_pages.create_table("shop.empty", "id INT, PRIMARY KEY (id)")
    page = small_pages.scanner(empty, 0).open()

    assert (page.scanner_id, page.log_offset, page.has_more, page.batch.num_rows) == (None, 0, False, 0)
    assert small_pages.list_scanners() == []


def test_too_many_sessions_are_refused_at_the_low_level(connect: Connect) -> None:
    connection = connect(kv__scanner__max_per_bucket=2, kv__scanner__page_bytes="4KB")
    connection.create_database("shop")
    table = fill(connection, buckets=1)
    scanners = [connection.scanner(table, 0) for _ in range(3)]
    scanners[0].open()
    scanners[1].open()

    with pytest.raises(TooManyScannersError) as caught:
        scanners[2].open()
    assert caught.value.retriable
    # A scan waits for room: it is there as soon as one of the others ends.
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.extend(ids(table.scan())))
    reader.start()
    scanners[0].close()
    reader.join(30)
    assert len(found) == ROWS


def test_many_scans_run_side_by_side(connection: penstock.Connection) -> None:
    table = fill(connection)
    found: list[int] = []

    def read() -> None:
        found.append(len(ids(table.scan())))

    readers = [threading.Thread(target=read) for _ in range(12)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    assert found == [ROWS] * 12


def test_time_travel_has_its_bounds(connection: penstock.Connection) -> None:
    table = fill(connection, buckets=1)
    with pytest.raises(OffsetOutOfRangeError, match=f"end={ROWS}"):
        table.scan(as_of={0: ROWS + 1})
    with pytest.raises(InvalidError, match="as_of names every bucket"):
        table.scan(as_of={})
    assert table.scan(as_of={0: 0}).to_arrow().num_rows == 0
    assert table.scan(as_of={0: 10}).to_arrow().num_rows == 10


def test_rows_go_straight_to_other_libraries(table: penstock.Table) -> None:
    total = sum(range(ROWS))
    assert table.scan().to_pandas()["id"].sum() == total
    assert table.scan().to_polars()["id"].sum() == total
    assert table.scan().to_duckdb().aggregate("sum(id)").fetchall() == [(total,)]
    assert pl.DataFrame(table.scan())["id"].sum() == total
    assert pa.table(table.scan()).num_rows == ROWS
    scan = table.scan()
    with duckdb.connect() as database:
        database.register("rows", pa.RecordBatchReader.from_stream(scan))
        assert database.sql("SELECT count(*) FROM rows").fetchall() == [(ROWS,)]


def test_partitioned_tables_scan_as_one(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.p", "p STRING, id INT, PRIMARY KEY (p, id)", partitioned_by=["p"], buckets=2)
    assert table.scan().to_arrow().num_rows == 0
    table.upsert([{"p": p, "id": n} for p in "abc" for n in range(10)])

    scan = table.scan()

    assert len(scan.log_offsets) == 6
    assert sorted(ids(scan)) == sorted([*range(10)] * 3)
    one = penstock.TableBucket("shop.p", "p=b", 0)
    assert {row["p"] for row in table.scan(buckets=[one]).to_arrow().to_pylist()} == {"b"}
    with pytest.raises(InvalidError, match=r"named with its partition; use penstock.TableBucket"):
        table.scan(buckets=[0])


def test_a_log_table_scans_what_was_appended(connection: penstock.Connection) -> None:
    log = connection.create_table("shop.log", "a INT, b STRING", buckets=2)
    for start in range(0, 100, 10):
        log.append([{"a": n, "b": "x"} for n in range(start, start + 10)])

    assert sorted(log.scan().to_arrow()["a"].to_pylist()) == list(range(100))
    assert log.scan(filter="a < 5", columns=["b"]).to_arrow().to_pydict() == {"b": ["x"] * 5}
    assert log.scan(limit=7).to_arrow().num_rows == 7
    scan = log.scan()
    token = scan.resume_token
    log.append([{"a": 1_000, "b": "late"}])
    assert sorted(connection.resume_scan(token).to_arrow()["a"].to_pylist()) == list(range(100))
    with pytest.raises(UnsupportedError, match="a log table has no live rows"):
        log.new_scan().with_source("live")


def test_the_log_of_a_keyed_table_can_be_scanned(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.k", "id INT, v STRING, PRIMARY KEY (id)")
    table.upsert([{"id": 1, "v": "a"}])
    table.upsert([{"id": 1, "v": "b"}])
    table.delete([1])

    rows = table.scan(source="log").to_arrow()

    assert rows["_change_type"].to_pylist() == ["+I", "-U", "+U", "-D"]
    assert rows["v"].to_pylist() == ["a", "a", "b", "b"]


def test_scans_end_cleanly(small_pages: penstock.Connection, table: penstock.Table) -> None:
    scan = table.scan()
    scan.close()
    scan.close()
    with pytest.raises(ClosedError, match="the scan is closed"):
        next(scan)
    with pytest.raises(InvalidError, match="not a resume token of a scan"):
        small_pages.resume_scan(b"nonsense")
    dropped = table.scan(limit=ROWS)
    token = dropped.resume_token
    small_pages.drop_table("shop.t")
    with pytest.raises(TableNotFoundError):
        list(dropped)
    with pytest.raises(TableNotFoundError):
        small_pages.resume_scan(token)


def test_columns_added_under_a_scan_do_not_show_in_it(small_pages: penstock.Connection, table: penstock.Table) -> None:
    scan = table.scan()
    first = next(scan)
    grown = table.add_column("more", pa.int64())
    grown.upsert([{"id": n, "v": "x", "n": 1, "more": 5} for n in range(100)])

    rest = small_pages.resume_scan(scan.resume_token).to_arrow()

    assert rest.column_names == ["id", "v", "n"]
    assert first.num_rows + rest.num_rows == ROWS
    assert grown.scan(filter="more = 5").to_arrow().num_rows == 100


def test_filter_of_thousands_of_comparisons_finds_what_a_list_finds(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.many", "id BIGINT, PRIMARY KEY (id)")
    table.upsert({"id": list(range(10_000))})
    wanted = range(0, 10_000, 3)

    chain = table.scan(filter=" OR ".join(f"id = {number}" for number in wanted), limit=None).to_arrow()

    assert sorted(chain["id"].to_pylist()) == list(wanted)


def test_filters_said_one_after_the_other_all_count(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.numbers", "id INT, n INT, PRIMARY KEY (id)")
    table.upsert([{"id": id, "n": id % 3} for id in range(10)])
    narrow = table.new_scan().filter("id > 2").filter(penstock.col("id") < 8).filter("n = 0 OR n = 1")

    found = narrow.execute().to_arrow()["id"].to_pylist()

    assert sorted(found) == [3, 4, 6, 7]
    assert narrow.filter(None).execute().to_arrow().num_rows == 10


@pytest.mark.parametrize("way", ["one iterator", "next", "each its own"])
def test_threads_share_out_the_rows_of_an_iterator_and_each_iteration_has_all(connect: Connect, way: str) -> None:
    table = connect(kv__scanner__page_bytes="1KB").create_table("t", "id INT, PRIMARY KEY (id)", buckets=2)
    table.upsert({"id": list(range(2_000))})
    copies = 8 if way == "each its own" else 1

    for _ in range(3):
        with table.scan() as scan:
            received: list[list[int]] = [[] for _ in range(8)]
            together = threading.Barrier(len(received))
            shared = iter(scan)

            def batches(
                scan: penstock.Scan = scan, shared: Iterator[pa.RecordBatch] = shared
            ) -> Iterable[pa.RecordBatch]:
                if way == "next":
                    return iter(lambda: next(scan, None), None)
                return shared if way == "one iterator" else scan

            def read(
                mine: list[int],
                together: threading.Barrier = together,
                batches: Callable[[], Iterable[pa.RecordBatch]] = batches,
            ) -> None:
                together.wait()
                for batch in batches():
                    mine.extend(batch["id"].to_pylist())

            threads = [threading.Thread(target=read, args=(mine,), daemon=True) for mine in received]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)

            assert sorted(id for mine in received for id in mine) == sorted(list(range(2_000)) * copies)
