"""A whole scan taken at once: pages are asked for early, and none is lost or doubled by that."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest
from tests.kit.client_node import ClientNode
from tests.unit.client.conftest import ManualTime

from penstock.client.link.link import Link
from penstock.client.table import Table
from penstock.errors import InvalidScanRequestError, UnavailableError
from penstock.model.node.calls import Page

MakeTable = Callable[..., Table]


class EagerNode(ClientNode):
    """Gives the page after the one that is asked for, too, and loses both from some page on."""

    lost_from = 2

    def pages(self, scanner_id: str, call_seq_id: int) -> Generator[Page, None, None]:
        while call_seq_id < self.lost_from:
            page = self.engine.scan.next_page(scanner_id, call_seq_id)
            yield page
            call_seq_id += 1
        self.engine.scan.next_page(scanner_id, call_seq_id)
        self.engine.scan.next_page(scanner_id, call_seq_id + 1)
        raise UnavailableError("the connection broke")


@pytest.fixture
def node() -> ClientNode:
    return EagerNode()


@pytest.fixture
def link(node: ClientNode, manual_time: ManualTime) -> Link:
    return Link(node, "memory", manual_time.retry(), distant=True)


@pytest.mark.parametrize("lost_from", [1, 2, 4])
def test_page_that_was_lost_after_the_next_was_given_is_read_at_its_offset(
    make_table: MakeTable, node: EagerNode, lost_from: int
) -> None:
    table = make_table()
    table.upsert([{"id": n, "v": str(n)} for n in range(20)])
    node.lost_from = lost_from
    scan = table.scan()
    table.upsert([{"id": n, "v": "late"} for n in range(30)])

    rows = scan.to_arrow()

    assert rows["id"].to_pylist() == list(range(20))
    assert "late" not in rows["v"].to_pylist()
    assert not node.sessions
    scan.close()
    assert not node.cuts


def test_whoever_takes_batches_one_by_one_asks_for_pages_by_their_number(
    make_table: MakeTable, node: EagerNode
) -> None:
    table = make_table()
    table.upsert([{"id": n, "v": str(n)} for n in range(20)])
    node.lost_from = 0

    assert [n for batch in table.scan() for n in batch["id"].to_pylist()] == list(range(20))
    assert len(table.scan(limit=15).to_arrow()) == 15


def test_number_that_is_refused_without_a_hurry_is_an_error(make_table: MakeTable, node: EagerNode) -> None:
    table = make_table()
    table.upsert([{"id": n, "v": str(n)} for n in range(20)])
    scan = table.scan(limit=15)
    node.rules.refuse("scan.next_page", InvalidScanRequestError("out of order"))

    with pytest.raises(InvalidScanRequestError):
        scan.to_arrow()
