from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.kit.client_node import ClientNode

from penstock.client.connection import Connection
from penstock.client.table import Table
from penstock.errors import InvalidError, InvalidScanRequestError, UnavailableError, UnknownOrExpiredScannerError
from penstock.model.place.bucket import TableBucket

MakeTable = Callable[..., Table]
TWO_ROWS_BYTES = 30


@pytest.fixture
def connection(node: ClientNode, make_table: MakeTable) -> Connection:
    make_table().upsert([{"id": n, "v": "x"} for n in range(5)])
    node.give_little(TWO_ROWS_BYTES)
    return Connection(node, "memory")


@pytest.mark.parametrize("bucket", [0, TableBucket("shop.orders", None, 0)])
def test_pages_are_called_by_number(connection: Connection, bucket: TableBucket | int) -> None:
    with connection.scanner("shop.orders", bucket) as scanner:
        page = scanner.open()
        pages = [page, scanner.next(1), scanner.next(2)]

    assert page.log_offset == 5
    assert page.scanner_id == scanner.scanner_id
    assert [n for page in pages for n in page.batch.column("id").to_pylist()] == [0, 1, 2, 3, 4]
    assert [page.has_more for page in pages] == [True, True, False]


def test_the_latest_page_comes_again(connection: Connection) -> None:
    scanner = connection.scanner(connection.table("shop.orders"), 0)
    scanner.open()

    assert scanner.next(1).batch.equals(scanner.next(1).batch)
    with pytest.raises(InvalidScanRequestError, match="the next one or the latest again"):
        scanner.next(5)


def test_nothing_is_retried(connection: Connection, node: ClientNode) -> None:
    scanner = connection.scanner("shop.orders", 0)
    scanner.open()
    node.rules.refuse("scan.next_page", UnavailableError("lost"))

    with pytest.raises(UnavailableError, match="lost"):
        scanner.next(1)
    assert scanner.next(1).batch.num_rows == 2
    node.lose_sessions()
    with pytest.raises(UnknownOrExpiredScannerError):
        scanner.next(2)


def test_calls_out_of_turn_are_refused(connection: Connection) -> None:
    scanner = connection.scanner("shop.orders", 0)
    with pytest.raises(InvalidScanRequestError, match=r"open the scanner first .* call_seq_id=1"):
        scanner.next(1)
    scanner.open()
    with pytest.raises(InvalidScanRequestError, match="the scanner was opened before"):
        scanner.open()
    scanner.close()
    scanner.close()
    assert "PageScanner" in repr(scanner)


def test_requests_are_checked_before_anything_is_opened(connection: Connection, node: ClientNode) -> None:
    with pytest.raises(InvalidError, match="fewer buckets"):
        connection.scanner("shop.orders", 7)
    with pytest.raises(InvalidError, match="no such column"):
        connection.scanner("shop.orders", 0, columns=["x"])
    with pytest.raises(InvalidError, match="a limit is a number of rows"):
        connection.scanner("shop.orders", 0, limit=-5)
    assert "scan.open" not in node.calls
