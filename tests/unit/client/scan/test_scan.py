from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from tests.kit.client_node import ClientNode
from tests.unit.client.conftest import ManualTime

from penstock.client.link.link import Link
from penstock.client.scan.request import ScanSource
from penstock.client.scan.scan import Scan
from penstock.client.table import Table
from penstock.errors import (
    ClosedError,
    InvalidError,
    NotLeaderError,
    OffsetOutOfRangeError,
    TableNotFoundError,
    TooManyScannersError,
    UnavailableError,
    UnknownOrExpiredScannerError,
    UnsupportedError,
)
from penstock.model.filter.filter import col
from penstock.model.place.bucket import TableBucket

MakeTable = Callable[..., Table]


@pytest.fixture(params=[False, True], ids=["beside", "distant"])
def link(request: pytest.FixtureRequest, node: ClientNode, manual_time: ManualTime) -> Link:
    return Link(node, "memory", manual_time.retry(), distant=request.param)


@pytest.fixture
def table(make_table: MakeTable) -> Table:
    table = make_table(buckets=3)
    table.upsert([{"id": n, "v": str(n)} for n in range(20)])
    return table


def ids(batches: Iterator[pa.RecordBatch] | Scan) -> list[int]:
    return [n for batch in batches for n in batch.column("id").to_pylist()]


def test_a_scan_gives_each_row_once_bucket_by_bucket(table: Table) -> None:
    scan = table.scan()
    seen = []

    for batch in scan:
        seen.append(scan.bucket)
        assert batch.schema == scan.schema

    assert seen == sorted(seen, key=lambda bucket: bucket.bucket)
    assert sorted(ids(table.scan())) == list(range(20))


def test_the_cut_is_known_before_the_first_row_and_later_writes_are_not_seen(table: Table) -> None:
    scan = table.scan()
    offsets = scan.log_offsets
    table.upsert([{"id": n, "v": "late"} for n in range(30)])

    rows = scan.to_arrow()

    assert sum(offsets.values()) == 20
    assert rows.num_rows == 20
    assert "late" not in rows["v"].to_pylist()


def test_columns_come_in_the_order_asked(table: Table) -> None:
    assert table.scan(columns=["v", "id"]).to_arrow().column_names == ["v", "id"]


def test_a_filter_may_be_an_expression_or_text(table: Table) -> None:
    assert sorted(ids(table.scan(filter=col("id") > 15))) == [16, 17, 18, 19]
    assert sorted(ids(table.scan(filter="id BETWEEN 3 AND 5"))) == [3, 4, 5]


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7, 19, 20, 21])
def test_a_limit_counts_over_all_buckets_and_ends_exactly(table: Table, node: ClientNode, limit: int) -> None:
    with table.scan(limit=limit) as scan:
        assert len(ids(scan)) == min(limit, 20)
    assert node.sessions == []


def test_a_limited_scan_asks_for_nothing_ahead(table: Table, node: ClientNode) -> None:
    with table.scan(limit=6) as scan:
        assert "scan.open" not in node.calls
        next(scan)
        assert node.calls.count("scan.open") + node.calls.count("scan.next_page") == 1


def test_only_the_buckets_asked_for_are_read(table: Table) -> None:
    scan = table.scan(buckets=[1])
    assert list(scan.log_offsets) == [TableBucket("shop.orders", None, 1)]
    assert len(ids(scan)) == sum(scan.log_offsets.values())


def test_lost_replies_are_asked_for_again(table: Table, node: ClientNode, manual_time: ManualTime) -> None:
    node.rules.refuse("scan.open_some" if table._link.distant else "scan.open", UnavailableError("lost"))
    node.rules.lose("scan.next_page", UnavailableError("lost"), UnavailableError("lost"))

    assert sorted(ids(table.scan())) == list(range(20))
    # Opening several buckets at once is tried once; whoever then opens one by one is the one that waits.
    assert len(manual_time.pauses) == (2 if table._link.distant else 3)


@pytest.mark.parametrize("error", [UnknownOrExpiredScannerError("gone"), NotLeaderError("moved")])
def test_a_lost_session_is_opened_again_at_the_same_snapshot(
    table: Table, node: ClientNode, error: UnavailableError
) -> None:
    with table.scan(limit=1_000) as scan:
        first = ids(iter([next(scan)]))
        table.upsert([{"id": n, "v": "late"} for n in range(20)])
        node.lose_sessions()
        node.lose_cuts()
        node.rules.refuse("scan.next_page", error)
        rest = scan.to_arrow()

    assert sorted(first + rest["id"].to_pylist()) == list(range(20))
    assert "late" not in rest["v"].to_pylist()


def test_opening_waits_for_room_up_to_ten_seconds(table: Table, node: ClientNode, manual_time: ManualTime) -> None:
    node.rules.refuse("scan.open", *(TooManyScannersError("full") for _ in range(5)))
    assert len(ids(table.scan())) == 20
    manual_time.now = 0

    node.rules.refuse("scan.open", *(TooManyScannersError("full", open=8) for _ in range(1_000)))
    with pytest.raises(TooManyScannersError, match="full open=8"):
        list(table.scan())
    assert 5 < manual_time.now <= 10


def test_a_snapshot_that_is_gone_ends_the_scan_for_good(table: Table, node: ClientNode) -> None:
    scan = table.scan(limit=1_000)
    next(scan)
    node.lose_sessions()
    node.lose_cuts()
    table.upsert([{"id": n, "v": "late"} for n in range(20)])
    for bucket, end in table.cut().items():
        node.engine.forget_before(bucket, end)

    with pytest.raises(OffsetOutOfRangeError, match=r"base=\d"):
        list(scan)
    with pytest.raises(ClosedError, match="the scan is closed; start another, or resume by token"):
        next(scan)


@pytest.mark.parametrize("limit", [None, 13])
def test_a_scan_goes_on_by_token_after_any_number_of_batches(table: Table, link: Link, limit: int | None) -> None:
    whole = ids(table.scan(limit=limit, filter="id <> 4"))
    count = len(list(table.scan(limit=limit, filter="id <> 4")))

    for stop in range(count + 1):
        with table.scan(limit=limit, filter="id <> 4") as scan:
            first = [n for _ in range(stop) for n in next(scan).column("id").to_pylist()]
            token = scan.resume_token
        table.upsert([{"id": 100 + stop, "v": "late"}])
        with Scan.resume(link, token) as rest:
            assert rest.log_offsets.keys() == scan.log_offsets.keys()
            assert first + ids(rest) == whole
        # The next round scans what it finds now.
        table.delete([100 + stop])


def test_a_token_keeps_projection_and_snapshot(table: Table, link: Link) -> None:
    token = table.scan(columns=["v"]).resume_token
    table.upsert([{"id": 1, "v": "late"}])

    rest = Scan.resume(link, token).to_arrow()

    assert rest.column_names == ["v"]
    assert "late" not in rest["v"].to_pylist()


def test_a_column_added_since_is_not_in_a_resumed_scan(table: Table, link: Link) -> None:
    token = table.scan().resume_token
    table.add_column("more", pa.int32())

    assert Scan.resume(link, token).to_arrow().column_names == ["id", "v"]


def test_a_token_of_a_dropped_table_says_so(table: Table, link: Link, node: ClientNode) -> None:
    token = table.scan().resume_token
    node.engine.catalog.drop_table("shop.orders")

    with pytest.raises(TableNotFoundError):
        Scan.resume(link, token)


def test_as_of_reads_the_past_and_names_every_bucket(table: Table) -> None:
    cut = table.cut()
    table.delete(list(range(20)))

    assert sorted(ids(table.scan(as_of=cut))) == list(range(20))
    assert sorted(ids(table.scan(as_of={bucket.bucket: at for bucket, at in cut.items()}))) == list(range(20))
    assert ids(table.scan()) == []
    cut.popitem()
    with pytest.raises(InvalidError, match=r"as_of names every bucket.* bucket=shop.orders#2"):
        table.scan(as_of=cut)


@pytest.mark.parametrize(
    ("as_of", "message"),
    [
        ({0: -1}, "an offset is a whole number, not negative bucket=0 offset=-1"),
        ({0: True}, "an offset is a whole number"),
        ({9: 1}, "the table has fewer buckets buckets=3"),
        ({"0": 1}, "a bucket is a penstock.TableBucket or a number"),
        ({TableBucket("shop.other", None, 0): 1}, "the bucket is of another table"),
        ({TableBucket("shop.orders", "day=1", 0): 1}, "the bucket is of another table"),
    ],
)
def test_offsets_that_are_none_are_refused(table: Table, as_of: dict[int, int], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        table.scan(as_of=as_of)


def test_a_forgotten_scan_lets_go_of_its_session_and_cut(table: Table, node: ClientNode) -> None:
    scan = table.scan()
    next(scan)
    threads = [thread for thread in threading.enumerate() if thread.name == "penstock-scan-shop.orders"]

    del scan
    gc.collect()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()

    assert node.sessions == []
    assert not node.cuts


def test_a_scan_forgotten_before_its_first_row_lets_go_too(table: Table, node: ClientNode) -> None:
    table.scan(limit=5)
    gc.collect()

    assert not node.cuts


def test_closing_while_another_thread_waits_for_a_page_ends_that_wait(table: Table, node: ClientNode) -> None:
    scan = table.scan()
    waiting, go_on = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def hold() -> None:
        waiting.set()
        assert go_on.wait(30)

    def read() -> None:
        try:
            list(scan)
        except ClosedError as error:
            failures.append(error)

    node.rules.at("scan.next_page", hold)
    node.rules.at("scan.pages", hold)
    reader = threading.Thread(target=read)
    reader.start()
    assert waiting.wait(30)
    scan.close()
    go_on.set()
    reader.join(30)

    assert len(failures) == 1


def test_a_closed_scan_says_so_and_lets_go(table: Table, node: ClientNode) -> None:
    scan = table.scan(limit=10)
    next(scan)
    scan.close()
    scan.close()

    assert node.sessions == []
    assert not node.cuts
    with pytest.raises(ClosedError, match="the scan is closed"):
        next(scan)
    assert repr(scan) == "<Scan of shop.orders, source live, closed>"


def test_a_scan_that_was_read_starts_again_at_its_cut(table: Table, node: ClientNode) -> None:
    scan = table.scan()
    assert len(ids(scan)) == 20
    table.upsert([{"id": n, "v": "late"} for n in range(30)])

    assert sorted(ids(scan)) == list(range(20))
    assert scan.to_arrow().num_rows == 20
    assert node.sessions == []
    assert len(node.cuts) == 1
    scan.close()
    assert not node.cuts
    for read in (lambda: list(scan), scan.to_arrow, lambda: pa.table(scan)):
        with pytest.raises(ClosedError, match="the scan is closed"):
            read()


def test_batches_that_were_taken_off_one_by_one_do_not_come_again_before_the_end(table: Table) -> None:
    scan = table.scan()
    first = next(scan)["id"].to_pylist()

    assert sorted(first + ids(scan)) == list(range(20))
    with pytest.raises(StopIteration):
        next(scan)
    with pytest.raises(StopIteration):
        next(scan)
    assert sorted(ids(scan)) == list(range(20))


def test_an_iteration_that_was_left_early_takes_no_rows_from_the_next(table: Table, node: ClientNode) -> None:
    scan = table.scan()
    for batch in scan:
        left_after = batch.num_rows
        break
    token = scan.resume_token

    assert scan.to_arrow().num_rows == 20
    batches = iter(scan)
    next(batches)
    assert scan.resume_token == token
    assert 20 - sum(batch.num_rows for batch in batches) == left_after


def test_a_forgotten_iteration_ends_its_session_and_not_the_scan(table: Table, node: ClientNode) -> None:
    scan = table.scan()
    batches = iter(scan)
    next(batches)
    threads = [thread for thread in threading.enumerate() if thread.name == "penstock-scan-shop.orders"]

    del batches
    gc.collect()
    for thread in threads:
        thread.join(30)

    assert node.sessions == []
    assert len(node.cuts) == 1
    assert scan.to_arrow().num_rows == 20
    scan.close()


def test_a_scan_is_kept_by_who_iterates_over_it(table: Table, node: ClientNode) -> None:
    batches = iter(table.scan())
    gc.collect()

    assert len(node.cuts) == 1
    assert sum(batch.num_rows for batch in batches) == 20
    del batches
    gc.collect()
    assert not node.cuts


def test_rows_go_to_every_library(table: Table) -> None:
    assert sorted(table.scan().to_pandas()["id"]) == list(range(20))
    assert sorted(table.scan().to_polars()["id"]) == list(range(20))
    assert table.scan().to_duckdb().aggregate("sum(id)").fetchall() == [(190,)]
    with duckdb.connect() as connection:
        assert table.scan().to_duckdb(connection).aggregate("count(*)").fetchall() == [(20,)]
    assert pa.table(table.scan()).num_rows == 20
    assert pl.DataFrame(table.scan()).height == 20


def test_an_empty_scan_still_has_its_columns(make_table: MakeTable) -> None:
    table = make_table()
    assert table.scan().to_arrow().schema == table.schema


def test_a_keyed_tables_log_says_what_its_changes_are(table: Table) -> None:
    table.upsert([{"id": 1, "v": "new"}])

    rows = table.scan(source="log", filter="id = 1").to_arrow()

    assert rows["_change_type"].to_pylist() == ["+I", "-U", "+U"]
    assert rows["v"].to_pylist() == ["1", "1", "new"]


def test_a_log_table_scans_its_rows(make_table: MakeTable, link: Link) -> None:
    table = make_table("a INT, b STRING", buckets=2)
    table.append([{"a": n, "b": "x"} for n in range(9)])

    assert sorted(table.scan(filter="a >= 5").to_arrow()["a"].to_pylist()) == [5, 6, 7, 8]
    assert table.scan(columns=["b"], filter="a < 3").to_arrow().column_names == ["b"]
    assert table.scan(limit=4).to_arrow().num_rows == 4
    scan = table.scan()
    first = next(scan).num_rows
    assert first + Scan.resume(link, scan.resume_token).to_arrow().num_rows == 9


def test_sources_that_are_not_there_are_refused(table: Table, make_table: MakeTable) -> None:
    with pytest.raises(InvalidError, match="no such scan source; choose one of live, snapshot, log source=kv"):
        table.new_scan().with_source("kv")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="a log table has no snapshots; lease its cut"):
        make_table("a INT").new_scan().with_source(ScanSource.SNAPSHOT)
    with pytest.raises(UnsupportedError, match="a log table has no live rows; scan its log"):
        make_table("a INT").new_scan().with_source(ScanSource.LIVE_KV)
    with pytest.raises(InvalidError, match="name a lease, or its id found=object"):
        table.new_scan().lease(object())  # type: ignore[arg-type]


def test_steps_are_checked_when_they_are_said(table: Table) -> None:
    builder = table.new_scan().lease(None)
    with pytest.raises(InvalidError, match="no such column; there are id, v column=x"):
        builder.select(["x"])
    with pytest.raises(InvalidError, match="a column is named twice column=v"):
        builder.select(["v", "v"])
    with pytest.raises(InvalidError, match="name at least one column"):
        builder.select([])
    with pytest.raises(InvalidError, match="columns= takes a list of names columns=v"):
        builder.select("v")
    with pytest.raises(InvalidError, match="a limit is a number of rows limit=-1"):
        builder.limit(-1)
    with pytest.raises(InvalidError, match="at least one bucket"):
        builder.buckets([])
    with pytest.raises(InvalidError):
        builder.filter("id = ")
    assert "source live" in repr(builder)
