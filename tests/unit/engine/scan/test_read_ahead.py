"""Pages that are read before they are asked for."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.kit.open_table import OpenTableRig, bucket, open_tables, write
from tests.kit.scan_service import scan_service
from tests.kit.waiting import wait_until

from penstock.engine.scan.cuts import Cuts
from penstock.engine.scan.read_ahead import PLACES, Place, ReadAhead
from penstock.engine.scan.session import ScanSession
from penstock.engine.settings import Settings
from penstock.errors import UnavailableError, UnknownOrExpiredScannerError
from penstock.log.settings import LogSettings
from penstock.model.node.calls import OpenScan, Page
from penstock.runtime.metrics import Metrics

ROWS = [{"id": i, "note": f"note {i}"} for i in range(400)]
PAGE = 500


class Node:
    """Scan sessions that read ahead, over one table of four hundred rows."""

    def __init__(self, rig: OpenTableRig) -> None:
        self.rig = rig
        self.scanners = scan_service(rig, rig.settings, Metrics(), Cuts(rig.settings, rig.clock))
        self.table = rig.create("default.orders", "id BIGINT, note STRING, PRIMARY KEY (id)")
        write(self.table, ROWS)
        rig.seal(self.table)

    def open(self, limit: int | None = None) -> Page:
        info = self.table.info
        call = OpenScan(info.table_id, info.schema_id, bucket(self.table), limit=limit, page_bytes=PAGE)
        return self._sent(self.scanners.open(call))

    def next(self, page: Page, number: int) -> Page:
        return self._sent(self.scanners.next_page(page.scanner_id or "", number))

    def _sent(self, page: Page) -> Page:
        self.scanners.read_ahead(page.scanner_id or "")
        return page

    def session(self, page: Page) -> ScanSession:
        return self.scanners._registry._sessions[page.scanner_id or ""]

    def waiting(self, page: Page) -> bool:
        return self.session(page).ahead is not None

    @property
    def free(self) -> int:
        return self.scanners._ahead.free


@pytest.fixture
def node() -> Iterator[Node]:
    with open_tables(LogSettings(block_rows=16)) as rig:
        made = Node(rig)
        yield made
        made.scanners.close_all()


def test_next_page_is_read_before_it_is_asked_for_and_comes_in_its_turn(node: Node) -> None:
    page = node.open()
    ids = page.batch["id"].to_pylist()
    number = 0
    while page.has_more:
        waits = page
        wait_until(lambda: node.waiting(waits))  # noqa: B023 - called at once
        number += 1
        page = node.next(page, number)
        ids += page.batch["id"].to_pylist()

    assert number > 5
    assert ids == [row["id"] for row in ROWS]


def test_latest_page_is_had_again_while_the_next_waits(node: Node) -> None:
    page = node.open()
    wait_until(lambda: node.waiting(page))

    again = node.scanners.next_page(page.scanner_id or "", 0)
    second = node.scanners.next_page(page.scanner_id or "", 1)

    assert again == page
    assert second.batch["id"][0].as_py() == page.next_offset


def test_a_scan_with_a_limit_reads_nothing_ahead(node: Node) -> None:
    page = node.open(limit=300)
    second = node.next(page, 1)
    node.scanners._ahead.close()

    assert second.has_more
    assert not node.waiting(page)
    assert node.free == PLACES


def test_idle_sessions_let_go_of_the_page_and_read_it_again(node: Node) -> None:
    page = node.open()
    wait_until(lambda: node.waiting(page))

    node.scanners.reap()

    assert not node.waiting(page)
    wait_until(lambda: node.free == PLACES)
    second = node.scanners.next_page(page.scanner_id or "", 1)
    assert second.batch["id"][0].as_py() == page.next_offset


def test_pages_wait_only_in_free_places_which_are_free_again_when_sessions_go(node: Node) -> None:
    held = [Place(node.scanners._ahead._free) for _ in range(PLACES - 2) if node.scanners._ahead._free.pop() is None]
    pages = [node.open() for _ in range(4)]
    wait_until(lambda: sum(node.waiting(page) for page in pages) == 2)

    assert (len(held), node.free) == (PLACES - 2, 0)
    for page in pages:
        assert node.scanners.next_page(page.scanner_id or "", 1).batch["id"][0].as_py() == page.next_offset
        node.scanners.close(page.scanner_id or "")
    wait_until(lambda: node.free == 2)


def test_whoever_asks_for_the_page_is_told_why_it_cannot_be_read(node: Node) -> None:
    page = node.open()
    wait_until(lambda: node.waiting(page))
    node.rig.disk.fail_reads_when(lambda _: True, errno.EIO)
    second = node.next(page, 1)
    wait_until(lambda: node.free == PLACES)

    with pytest.raises(UnavailableError):
        node.scanners.next_page(page.scanner_id or "", 2)
    node.rig.disk.clear_faults()
    third = node.scanners.next_page(page.scanner_id or "", 2)

    assert third.batch["id"][0].as_py() == second.next_offset


def test_session_that_was_closed_is_gone_whatever_was_read_for_it(node: Node) -> None:
    page = node.open()
    wait_until(lambda: node.waiting(page))
    node.scanners.close(page.scanner_id or "")

    with pytest.raises(UnknownOrExpiredScannerError):
        node.scanners.next_page(page.scanner_id or "", 1)


def test_after_the_end_nothing_is_read() -> None:
    ahead = ReadAhead()
    ahead.close()
    read: list[Place] = []

    ahead.start(read.append)

    assert (read, ahead.free) == ([], PLACES)


def test_several_buckets_are_opened_up_to_the_first_with_more_than_a_page() -> None:
    with open_tables() as rig:
        settings = replace(Settings(), page_bytes=4_096)
        node = scan_service(rig, settings, Metrics(), Cuts(settings, rig.clock))
        table = rig.create("default.orders", "id BIGINT, note STRING, PRIMARY KEY (id)")
        write(table, ROWS)
        call = OpenScan(table.info.table_id, table.info.schema_id, bucket(table), page_bytes=4_096)
        small = replace(call, limit=10)

        assert [page.rows for page in node.open_some([small, small, small])] == [10, 10, 10]
        pages = node.open_some([small, call, small])
        assert [page.has_more for page in pages] == [False, True]
        assert len(node.open_some([small] * 200)) < 100
