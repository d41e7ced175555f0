"""A scan of one bucket from a distance: its first page comes with its snapshot, the rest under a cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.kit.client_node import ClientNode
from tests.unit.client.conftest import ManualTime

from penstock.client.link.link import Link
from penstock.client.table import Table
from penstock.errors import TooManyScannersError, UnavailableError
from penstock.model.place.bucket import TableBucket

MakeTable = Callable[..., Table]
BUCKET = TableBucket("shop.orders", None, 0)


@pytest.fixture
def link(node: ClientNode, manual_time: ManualTime) -> Link:
    return Link(node, "memory", manual_time.retry(), distant=True)


@pytest.fixture
def fill(make_table: MakeTable, node: ClientNode) -> Callable[..., Table]:
    def make(rows: int, **options: object) -> Table:
        table = make_table(**options)
        if rows:
            table.upsert([{"id": n, "v": str(n)} for n in range(rows)])
        node.rules.calls.clear()
        return table

    return make


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_what_fits_a_page_is_read_in_one_call_and_leaves_nothing(
    fill: Callable[..., Table], node: ClientNode, rows: int
) -> None:
    table = fill(rows)

    scan = table.scan()

    assert scan.log_offsets == {BUCKET: rows}
    assert scan.to_arrow()["id"].to_pylist() == list(range(rows))
    assert node.calls == ["scan.open"]
    assert not node.cuts
    assert not node.sessions


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 20, None])
@pytest.mark.parametrize("chosen", [None, [0]])
def test_what_is_more_goes_on_at_the_same_snapshot(
    fill: Callable[..., Table], node: ClientNode, limit: int | None, chosen: list[int] | None
) -> None:
    table = fill(10)

    scan = table.scan(limit=limit, buckets=chosen)
    table.upsert([{"id": n, "v": "late"} for n in range(30)])
    rows = scan.to_arrow()

    assert rows["id"].to_pylist() == list(range(10))[:limit]
    assert "late" not in rows["v"].to_pylist()
    assert not node.sessions
    assert scan.to_arrow().equals(rows)
    scan.close()
    assert not node.cuts
    assert not node.sessions


def test_a_scan_that_is_closed_before_it_is_read_leaves_nothing(fill: Callable[..., Table], node: ClientNode) -> None:
    scan = fill(10).scan(limit=9)
    assert len(node.cuts) == len(node.sessions) == 1

    scan.close()

    assert node.calls == ["scan.open", "scan.close", "scan.release_cut"]
    assert not node.cuts
    assert not node.sessions


def test_a_lost_session_is_opened_again_under_the_cut_that_came_with_the_first_page(
    fill: Callable[..., Table], node: ClientNode
) -> None:
    table = fill(10)
    scan = table.scan(limit=20)
    first = next(scan)
    table.upsert([{"id": n, "v": "late"} for n in range(30)])
    node.lose_sessions()

    rest = scan.to_arrow()

    assert [*first["id"].to_pylist(), *rest["id"].to_pylist()] == list(range(10))
    scan.close()
    assert not node.cuts


def test_a_reply_that_is_lost_is_asked_for_again(fill: Callable[..., Table], node: ClientNode) -> None:
    table = fill(2)
    node.rules.lose("scan.open", UnavailableError("cut off"))

    assert table.scan().to_arrow().num_rows == 2
    assert node.calls == ["scan.open", "scan.open"]


def test_without_room_for_a_session_the_snapshot_is_fixed_and_reading_waits(
    fill: Callable[..., Table], node: ClientNode, manual_time: ManualTime
) -> None:
    table = fill(10)
    node.rules.refuse("scan.open", *(TooManyScannersError("full") for _ in range(3)))

    scan = table.scan(limit=100)
    assert manual_time.pauses == []
    table.upsert([{"id": 99, "v": "late"}])

    assert scan.to_arrow()["id"].to_pylist() == list(range(10))
    assert len(manual_time.pauses) == 2


def test_token_of_the_first_page_goes_on_after_it(fill: Callable[..., Table], node: ClientNode, link: Link) -> None:
    table = fill(10)
    scan = table.scan(limit=9)

    before = scan.resume_token
    first = next(scan)["id"].to_pylist()
    after = scan.resume_token
    scan.close()

    assert type(scan).resume(link, before).to_arrow()["id"].to_pylist() == list(range(9))
    assert type(scan).resume(link, after).to_arrow()["id"].to_pylist() == list(range(9))[len(first) :]


def test_several_buckets_are_read_at_one_cut(fill: Callable[..., Table], node: ClientNode) -> None:
    table = fill(10, buckets=3)

    assert table.scan(limit=20).to_arrow().num_rows == 10
    assert node.calls[0] == "scan.open_cut"


def test_a_cut_is_let_go_of_once(fill: Callable[..., Table], node: ClientNode) -> None:
    with fill(10).scan() as scan:
        assert sum(batch.num_rows for batch in scan) == 10
    scan.close()
    del scan

    assert node.calls.count("scan.release_cut") == 1
