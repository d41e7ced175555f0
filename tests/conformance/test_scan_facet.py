"""What every node's scans do: cuts, sessions of pages, tokens to go on by."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from tests.conformance.conftest import House
from tests.kit.node_calls import bucket, make_table, orders, scan_rows, write_call

from penstock.errors import (
    InvalidError,
    InvalidScanRequestError,
    OffsetOutOfRangeError,
    PenstockError,
    TableNotFoundError,
    UnknownOrExpiredScannerError,
)
from penstock.model.filter.filter import Filter
from penstock.model.node.calls import OpenScan
from penstock.model.node.node import Node
from penstock.model.table.table import TableInfo

ROWS = 200
SMALL_PAGE = 400
TTL_MS = 60_000


@pytest.fixture
def info(node: Node) -> TableInfo:
    info = make_table(node)
    node.tables.write(write_call(info, orders(*range(ROWS))))
    return info


def scan(info: TableInfo, **facts: Any) -> OpenScan:
    return OpenScan(info.table_id, info.schema_id, bucket(info), **facts)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def test_scan_gives_the_rows_of_its_opening_page_by_page(node: Node, info: TableInfo) -> None:
    page = node.scan.open(scan(info, page_bytes=SMALL_PAGE))
    node.tables.write(write_call(info, orders(*range(ROWS), note="late")))

    assert page.log_offset == ROWS
    assert page.has_more
    assert page.scanner_id is not None
    pages = [page]
    while pages[-1].has_more:
        pages.append(node.scan.next_page(page.scanner_id, len(pages)))

    assert [row for page in pages for row in page.batch.to_pylist()] == orders(*range(ROWS))
    assert len(pages) > 3


def test_small_scan_has_one_page_and_no_session(node: Node, info: TableInfo) -> None:
    page = node.scan.open(scan(info, limit=3))

    assert (page.rows, page.has_more) == (3, False)
    assert node.scan.list() == []


def test_scan_reads_the_columns_rows_and_range_that_it_is_told(node: Node, info: TableInfo) -> None:
    filter = Filter("id >= 190", info.schema).to_bytes()

    assert scan_rows(node, scan(info, columns=("id",), filter=filter, limit=4)) == [{"id": n} for n in range(190, 194)]
    assert ids(scan_rows(node, scan(info, as_of=10))) == list(range(10))
    assert ids(scan_rows(node, scan(info, start=5, end=8))) == [5, 6, 7]


def test_latest_page_is_given_again_and_no_other(node: Node, info: TableInfo) -> None:
    first = node.scan.open(scan(info, page_bytes=SMALL_PAGE))
    assert first.scanner_id is not None
    one = node.scan.next_page(first.scanner_id, 1)

    again = node.scan.next_page(first.scanner_id, 1)

    assert again.batch.equals(one.batch)
    for number in (0, 3):
        with pytest.raises(InvalidScanRequestError):
            node.scan.next_page(first.scanner_id, number)
    assert node.scan.next_page(first.scanner_id, 2).rows > 0


def test_session_under_a_name_is_opened_once(node: Node, info: TableInfo) -> None:
    call = scan(info, page_bytes=SMALL_PAGE, scanner_id="5e" * 16)

    first, again = node.scan.open(call), node.scan.open(call)

    assert again.batch.equals(first.batch)
    assert [found.scanner_id for found in node.scan.list()] == ["5e" * 16]


def test_pages_come_one_behind_the_other(node: Node, info: TableInfo) -> None:
    first = node.scan.open(scan(info, page_bytes=SMALL_PAGE))
    assert first.scanner_id is not None

    with closing(node.scan.pages(first.scanner_id, 1)) as pages:
        rows = first.batch.to_pylist() + [row for page in pages for row in page.batch.to_pylist()]

    assert ids(rows) == list(range(ROWS))


def test_scans_are_opened_in_turn_up_to_the_first_that_has_more(node: Node, info: TableInfo) -> None:
    small = scan(info, limit=1)
    large = scan(info, page_bytes=SMALL_PAGE)

    assert len(node.scan.open_some([small, small, small])) == 3
    pages = node.scan.open_some([small, large, small])

    assert [page.has_more for page in pages] == [False, True]


def test_token_of_a_page_goes_on_behind_it(node: Node, info: TableInfo) -> None:
    page = node.scan.open(scan(info, page_bytes=SMALL_PAGE, columns=("id",)))
    node.tables.write(write_call(info, orders(ROWS + 1)))
    assert page.scanner_id is not None
    node.scan.close(page.scanner_id)

    rest = scan_rows(node, node.scan.read_token(page.resume_token))

    assert ids(page.batch.to_pylist()) + ids(rest) == list(range(ROWS))


@pytest.mark.parametrize("junk", [b"", b"junk", b"PSRT" + b"\x00" * 40])
def test_token_that_is_none_is_refused(node: Node, info: TableInfo, junk: bytes) -> None:
    with pytest.raises(InvalidError):
        node.scan.read_token(junk)


def test_session_that_was_closed_or_killed_or_never_there_is_unknown(node: Node, info: TableInfo) -> None:
    closed, killed = (node.scan.open(scan(info, page_bytes=SMALL_PAGE)).scanner_id for _ in range(2))
    assert closed is not None
    assert killed is not None
    node.scan.close(closed)
    node.scan.close(closed)
    node.scan.kill(killed)

    for scanner_id in (closed, killed, "never"):
        with pytest.raises(UnknownOrExpiredScannerError):
            node.scan.next_page(scanner_id, 1)
    assert node.scan.list() == []


def test_session_that_idles_too_long_expires(house: House, info: TableInfo) -> None:
    page = house.node.scan.open(scan(info, page_bytes=SMALL_PAGE))
    assert page.scanner_id is not None

    house.engine.clock.advance(TTL_MS + 1)

    with pytest.raises(UnknownOrExpiredScannerError):
        house.node.scan.next_page(page.scanner_id, 1)


def test_list_shows_what_a_session_has_given(node: Node, info: TableInfo) -> None:
    page = node.scan.open(scan(info, page_bytes=SMALL_PAGE))

    (found,) = node.scan.list()

    assert (found.scanner_id, found.bucket, found.log_offset) == (page.scanner_id, bucket(info), ROWS)
    assert (found.pages, found.rows) == (1, page.rows)


def test_cut_protects_what_is_read_at_it_until_it_is_released(house: House, info: TableInfo) -> None:
    node, name = house.node, bucket(info)
    cut = node.scan.open_cut(info.table_id)
    node.tables.write(write_call(info, orders(*range(ROWS), note="late")))
    house.engine.forget_before(name, 2 * ROWS)

    assert cut.offsets == {name: ROWS}
    assert scan_rows(node, scan(info, as_of=ROWS, cut_id=cut.cut_id)) == orders(*range(ROWS))

    node.scan.release_cut(cut.cut_id)
    node.scan.release_cut(cut.cut_id)
    house.engine.forget_before(name, 2 * ROWS)
    with pytest.raises(OffsetOutOfRangeError):
        node.scan.open(scan(info, as_of=ROWS))


def test_cut_of_offsets_that_are_not_there_is_refused(node: Node, info: TableInfo) -> None:
    for offset in (ROWS + 1, -1):
        with pytest.raises(PenstockError):
            node.scan.open_cut(info.table_id, as_of={bucket(info): offset})
    with pytest.raises(InvalidError):
        node.scan.open_cut(info.table_id, as_of={})


def test_cut_that_is_unknown_protects_nothing(node: Node, info: TableInfo) -> None:
    with pytest.raises(UnknownOrExpiredScannerError):
        node.scan.open(scan(info, as_of=ROWS, cut_id="never"))


def test_cut_under_a_name_is_the_same_for_all_who_ask(house: House, info: TableInfo) -> None:
    node = house.node
    first = node.scan.named_cut(info.table_id, "job-7", TTL_MS)
    node.tables.write(write_call(info, orders(ROWS + 1)))

    assert node.scan.named_cut(info.table_id, "job-7", TTL_MS).offsets == first.offsets
    assert node.scan.named_cut(info.table_id, "job-8", TTL_MS).offsets == {bucket(info): ROWS + 1}


def test_table_that_is_gone_has_no_cuts_and_no_scans(node: Node, info: TableInfo) -> None:
    page = node.scan.open(scan(info, page_bytes=SMALL_PAGE))
    assert page.scanner_id is not None
    node.catalog.drop_table(info.path)

    for act in (
        lambda: node.scan.open(scan(info)),
        lambda: node.scan.open_some([scan(info)]),
        lambda: node.scan.open_cut(info.table_id),
        lambda: node.scan.named_cut(info.table_id, "job", TTL_MS),
    ):
        with pytest.raises(TableNotFoundError):
            act()
    with pytest.raises(PenstockError):
        node.scan.next_page(page.scanner_id, 1)


def test_scan_of_what_is_not_there_is_refused(node: Node, info: TableInfo) -> None:
    for call in (
        replace(scan(info), bucket=bucket(info, 5)),
        replace(scan(info), columns=("nope",)),
        replace(scan(info), filter=b"junk"),
        replace(scan(info), as_of=ROWS + 1),
    ):
        with pytest.raises(PenstockError):
            node.scan.open(call)
    assert node.scan.list() == []
