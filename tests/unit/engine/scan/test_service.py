"""Scan sessions: what each call number gets, how long a session lives, and who may have one."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.open_table import OpenTableRig, bucket, delete, open_tables, pins, write
from tests.kit.scan_service import scan_service

from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.scan.cuts import Cuts
from penstock.engine.scan.page_reader import APART_BYTES_MIN
from penstock.engine.scan.resume_token import ResumeToken
from penstock.engine.settings import PAGE_BYTES_MAX, Settings
from penstock.engine.table.open_table import OpenTable
from penstock.errors import (
    InvalidError,
    InvalidScanRequestError,
    LimitError,
    NotLeaderError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
    PermissionDeniedError,
    TableNotFoundError,
    TooManyScannersError,
    UnavailableError,
    UnknownOrExpiredScannerError,
    UnsupportedError,
)
from penstock.log.settings import LogSettings
from penstock.model.filter.filter import Filter
from penstock.model.node.calls import OpenScan, Page
from penstock.model.node.principal import LOCAL
from penstock.model.place.bucket import TableBucket
from penstock.runtime.metrics import Metrics
from penstock.testing.fault_plan import Operation as DiskOperation
from penstock.testing.manual_clock import ManualClock

ROWS = [{"id": i, "city": None if i % 5 == 0 else f"city-{i}", "amount": i * 0.5} for i in range(100)]
PAGE = 400


class Node:
    """Scan sessions over one table of a hundred rows."""

    def __init__(
        self,
        rig: OpenTableRig,
        settings: Settings | None = None,
        *,
        apart_bytes_min: int = APART_BYTES_MIN,
        path: str = "default.orders",
    ) -> None:
        self.rig = rig
        self.settings = settings or rig.settings
        self.metrics = Metrics()
        self.cuts = Cuts(self.settings, rig.clock)
        self.metadata = MemoryMetadataStore()
        self.scanners = scan_service(
            rig, self.settings, self.metrics, self.cuts, self.metadata, apart_bytes_min=apart_bytes_min
        )
        self.table = rig.create(path, "id BIGINT, city STRING, amount DOUBLE, PRIMARY KEY (id)")
        write(self.table, ROWS)

    @property
    def clock(self) -> ManualClock:
        return self.rig.clock

    def call(self, **changes: Any) -> OpenScan:
        asked: dict[str, Any] = {"bucket": bucket(self.table), "page_bytes": PAGE}
        return OpenScan(self.table.info.table_id, self.table.info.schema_id, **(asked | changes))

    def open(self, **changes: Any) -> Page:
        return self.scanners.open(self.call(**changes))

    def rest(self, page: Page, number: int = 0) -> list[Page]:
        """Return this page and all that follow it."""
        pages = [page]
        while pages[-1].has_more:
            number += 1
            assert page.scanner_id is not None
            pages.append(self.scanners.next_page(page.scanner_id, number))
        return pages

    def rows(self, page: Page, number: int = 0) -> list[dict[str, Any]]:
        return [row for part in self.rest(page, number) for row in part.batch.to_pylist()]

    def filter(self, text: str) -> bytes:
        return Filter(text, self.table.info.schema).to_bytes()

    def number(self, metric: str) -> float:
        return self.metrics.snapshot()[f"penstock_scanner_{metric}"]


@pytest.fixture
def rig() -> Iterator[OpenTableRig]:
    with open_tables(LogSettings(block_rows=16, cache_bytes_max=0)) as made:
        yield made


@pytest.fixture
def node(rig: OpenTableRig) -> Node:
    return Node(rig)


def stored(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def id_of(page: Page) -> str:
    assert page.scanner_id is not None
    return page.scanner_id


class Pause:
    """Holds the first read of the disk until told to go on."""

    def __init__(self, rig: OpenTableRig) -> None:
        self.reached = threading.Event()
        self.go = threading.Event()
        rig.disk.fail_reads_when(self._lease_pins, errno.EIO)

    def _lease_pins(self, _: DiskOperation) -> bool:
        if not self.reached.is_set():
            self.reached.set()
            assert self.go.wait(30)
        return False


def test_open_takes_x_from_the_view_pins_it_and_gives_the_first_page(node: Node) -> None:
    page = node.open()

    assert page.log_offset == 100
    assert pins(node.table) == {f"scanner-{page.scanner_id}": 100}
    assert page.has_more
    assert page.batch.column("id").to_pylist() == list(range(page.batch.num_rows))
    assert page.next_offset == page.batch.num_rows


def test_pages_hold_each_row_once_as_it_was_at_x_whatever_is_written_and_compacted_meanwhile(node: Node) -> None:
    page = node.open()

    write(node.table, [{"id": i, "city": "later", "amount": -1.0} for i in range(0, 120, 2)])
    delete(node.table, [{"id": i} for i in range(1, 100, 2)])
    node.rig.compact(node.table, 1_000)

    assert node.rows(page) == ROWS


def test_empty_bucket_opens_no_session_and_still_tells_its_log_offset(node: Node) -> None:
    delete(node.table, [{"id": i} for i in range(100)])

    page = node.open()

    assert (page.scanner_id, page.has_more, page.batch.num_rows, page.log_offset) == (None, False, 0, 200)
    assert page.batch.schema.names == ["id", "city", "amount"]
    assert node.scanners.list() == []
    assert pins(node.table) == {}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"bucket": TableBucket("default.orders", None, 1)}, InvalidError),
        ({"bucket": TableBucket("default.orders", "day=1", 0)}, InvalidError),
        ({"bucket": TableBucket("default.other", None, 0)}, InvalidError),
        ({"columns": ("id", "nothing")}, InvalidError),
        ({"columns": ("id", "id")}, InvalidError),
        ({"columns": ()}, InvalidError),
        ({"filter": b"junk"}, InvalidError),
        ({"filter": b"\x01nothing = 1"}, InvalidError),
        ({"limit": -1}, InvalidScanRequestError),
        ({"page_bytes": 0}, InvalidScanRequestError),
        ({"page_bytes": PAGE_BYTES_MAX + 1}, LimitError),
        ({"start": -1}, InvalidScanRequestError),
        ({"start": 101}, InvalidScanRequestError),
        ({"start": 51, "as_of": 50}, InvalidScanRequestError),
        ({"as_of": 101}, OffsetOutOfRangeError),
        ({"as_of": -1, "start": -1}, InvalidScanRequestError),
        ({"cut_id": "unknown"}, UnknownOrExpiredScannerError),
        ({"cut_id": "unknown", "pin": True}, InvalidScanRequestError),
    ],
)
def test_validation_happens_before_anything_is_opened(
    node: Node, changes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        node.open(**changes)

    assert pins(node.table) == {}
    assert node.scanners.list() == []
    full = [node.open() for _ in range(node.settings.scanners_per_bucket_max)]
    assert len(full) == 8, "a refused scan takes no slot"


def test_unknown_table_is_refused(node: Node) -> None:
    with pytest.raises(TableNotFoundError):
        node.scanners.open(replace(node.call(), table_id=77))


def test_log_table_has_no_live_rows_to_scan(node: Node) -> None:
    log = node.rig.create("default.clicks", "id BIGINT")

    with pytest.raises(UnsupportedError):
        node.scanners.open(OpenScan(log.info.table_id, 0, bucket(log)))


def test_projection_gives_columns_in_the_order_asked_and_filter_columns_only_if_asked(node: Node) -> None:
    page = node.open(columns=("amount", "id"), filter=node.filter("city = 'city-7'"))

    assert page.batch.schema == pa.schema([("amount", pa.float64()), pa.field("id", pa.int64(), nullable=False)])
    assert page.batch.to_pylist() == [{"amount": 3.5, "id": 7}]


def test_reader_sees_the_schema_it_knows_and_nulls_in_rows_older_than_a_column(node: Node) -> None:
    node.rig.add_column(node.table, "note", pa.string())
    write(node.table, [{"id": 100, "city": "new", "amount": 1.0, "note": "n"}])

    old = node.rows(node.scanners.open(replace(node.call(), schema_id=0)))
    new = node.rows(node.open(columns=("note",)))

    assert old == [*ROWS, {"id": 100, "city": "new", "amount": 1.0}]
    assert new == [*({"note": None} for _ in range(100)), {"note": "n"}]


def test_next_number_gets_the_next_page(node: Node) -> None:
    pages = node.rest(node.open())

    assert len(pages) > 3
    assert [row for page in pages for row in page.batch.to_pylist()] == ROWS


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("text", ["", "amount > 10 AND NOT city = 'city-33'"])
def test_latest_number_again_gets_the_byte_identical_page_again(node: Node, text: str, sealed: bool) -> None:
    write(node.table, ROWS[10:90:3])
    if sealed:
        node.rig.seal(node.table)
    page = node.open(filter=node.filter(text) if text else None)
    number = 0
    while page.has_more:
        again = node.scanners.next_page(id_of(page), number)
        assert stored(again.batch) == stored(page.batch)
        assert replace(again, batches=()) == replace(page, batches=())
        number += 1
        page = node.scanners.next_page(id_of(page), number)

    again = node.scanners.next_page(id_of(page), number)

    assert number > 2
    assert stored(again.batch) == stored(page.batch)


def test_page_is_recomputed_and_not_kept(node: Node) -> None:
    node.rig.seal(node.table)
    page = node.open()
    node.rig.disk.fail_reads_when(lambda _: True, errno.EIO, times=1)

    with pytest.raises(UnavailableError):
        node.scanners.next_page(id_of(page), 0)

    assert node.scanners.next_page(id_of(page), 0).batch.equals(page.batch)


def test_failed_read_leaves_the_page_the_next_one(node: Node) -> None:
    node.rig.seal(node.table)
    page = node.open()
    node.rig.disk.fail_reads_when(lambda _: True, errno.EIO, times=1)

    with pytest.raises(UnavailableError):
        node.rest(page)

    assert len(node.scanners.list()) == 1
    latest = node.scanners.list()[0].pages - 1
    rest = node.rows(node.scanners.next_page(id_of(page), latest), latest)
    assert rest == ROWS[100 - len(rest) :]


@pytest.mark.parametrize("number", [-1, 0, 3, 7])
def test_any_other_number_is_refused_and_the_session_is_intact(node: Node, number: int) -> None:
    page = node.open()
    first = node.scanners.next_page(id_of(page), 1)

    with pytest.raises(InvalidScanRequestError):
        node.scanners.next_page(id_of(page), number)

    assert node.scanners.next_page(id_of(page), 1).batch.equals(first.batch)
    assert node.rows(node.scanners.next_page(id_of(page), 2), 2) == ROWS[page.batch.num_rows + first.batch.num_rows :]


def test_overlapping_calls_are_serialised(node: Node) -> None:
    node.rig.seal(node.table)
    page = node.open(page_bytes=1_000)
    pause = Pause(node.rig)
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(node.scanners.next_page, id_of(page), 1)]
        assert pause.reached.wait(30)
        calls += [pool.submit(node.scanners.next_page, id_of(page), 1) for _ in range(2)]
        pause.go.set()
        first, *others = [call.result(30) for call in calls]

    assert all(stored(other.batch) == stored(first.batch) for other in others)
    assert page.batch.num_rows + first.batch.num_rows < 100


def test_page_size_counts_the_real_bytes_of_sliced_rows(node: Node) -> None:
    pages = node.rest(node.open(page_bytes=1_000))

    sizes = [page.batch.nbytes for page in pages]
    assert max(sizes) <= 1_000
    assert min(sizes[:-1]) > 800


def test_page_holds_at_least_one_row(node: Node) -> None:
    pages = node.rest(node.open(page_bytes=1))

    assert [page.batch.num_rows for page in pages] == [1] * 100


def test_no_page_without_a_filter_is_empty(node: Node) -> None:
    pages = node.rest(node.open(page_bytes=PAGE))

    assert all(page.batch.num_rows for page in pages)


@pytest.mark.parametrize("limit", [0, 1, 7, 16, 99, 100, 101])
def test_limit_ends_the_session_exactly(node: Node, limit: int) -> None:
    pages = node.rest(node.open(limit=limit))

    assert [row for page in pages for row in page.batch.to_pylist()] == ROWS[:limit]
    assert not pages[-1].has_more
    assert node.scanners.list() == []
    assert pins(node.table) == {}


def test_limit_never_reads_ahead(node: Node) -> None:
    node.rig.seal(node.table)
    reads: list[DiskOperation] = []

    def note(read: DiskOperation) -> bool:
        reads.append(read)
        return False

    node.rig.disk.fail_reads_when(note, errno.EIO)

    node.open(limit=16, page_bytes=10_000)

    assert len(reads) == 1


def test_filtered_page_may_be_empty_with_more_after_searching_for_200_ms(node: Node) -> None:
    node.rig.seal(node.table)

    def time_passes(_: DiskOperation) -> bool:
        node.clock.advance(100)
        return False

    node.rig.disk.fail_reads_when(time_passes, errno.EIO)

    page = node.open(filter=node.filter("id = 99"))

    assert (page.batch.num_rows, page.has_more, page.next_offset) == (0, True, 32)
    again = node.scanners.next_page(id_of(page), 0)
    assert (again.batch.num_rows, again.has_more, again.next_offset) == (0, True, 32)
    assert node.rows(page) == ROWS[99:]


def test_ttl_counts_from_the_last_valid_call(node: Node) -> None:
    page = node.open()
    ttl_ms = node.settings.scanner_ttl_ms
    for number in (1, 2, 2):
        node.clock.advance(ttl_ms)
        node.scanners.next_page(id_of(page), number)
    node.clock.advance(ttl_ms)
    with pytest.raises(InvalidScanRequestError):
        node.scanners.next_page(id_of(page), 9)
    node.clock.advance(1)

    with pytest.raises(UnknownOrExpiredScannerError):
        node.scanners.next_page(id_of(page), 3)

    assert pins(node.table) == {}
    assert node.number("evicted") == 1


def test_reaper_ends_idle_sessions_and_frees_their_pins(node: Node) -> None:
    idle, busy = node.open(), node.open()
    node.clock.advance(node.settings.scanner_ttl_ms)
    node.scanners.next_page(id_of(busy), 1)
    assert node.scanners.reap() == 0
    node.clock.advance(1)

    assert node.scanners.reap() == 1

    assert [info.scanner_id for info in node.scanners.list()] == [busy.scanner_id]
    assert pins(node.table) == {f"scanner-{busy.scanner_id}": 100}
    with pytest.raises(UnknownOrExpiredScannerError):
        node.scanners.next_page(id_of(idle), 1)


def test_reaper_lets_idle_sessions_hold_no_rows_and_they_go_on(node: Node) -> None:
    page = node.open()

    node.scanners.reap()

    assert node.rows(page) == ROWS


def test_session_has_a_maximum_life(node: Node) -> None:
    page = node.open(page_bytes=1)
    for number in range(1, 91):
        node.clock.advance(node.settings.scanner_lifetime_max_ms // 90)
        node.scanners.next_page(id_of(page), number)
    node.clock.advance(1)

    with pytest.raises(UnknownOrExpiredScannerError):
        node.scanners.next_page(id_of(page), 91)


def test_call_under_way_keeps_its_session(node: Node) -> None:
    node.rig.seal(node.table)
    page = node.open(page_bytes=1_000)
    pause = Pause(node.rig)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(node.scanners.next_page, id_of(page), 1)
        assert pause.reached.wait(30)
        node.clock.advance(node.settings.scanner_ttl_ms + 1)
        assert node.scanners.reap() == 0
        pause.go.set()
        call.result(30)

    assert node.scanners.next_page(id_of(page), 1).batch.num_rows


def test_unknown_and_expired_are_one_error(node: Node) -> None:
    page = node.open()
    node.clock.advance(node.settings.scanner_ttl_ms + 1)

    with pytest.raises(UnknownOrExpiredScannerError) as expired:
        node.scanners.next_page(id_of(page), 1)
    with pytest.raises(UnknownOrExpiredScannerError) as never:
        node.scanners.next_page("never-was", 1)

    assert expired.value.message == never.value.message


def test_close_is_idempotent(node: Node) -> None:
    page = node.open()

    for _ in range(3):
        node.scanners.close(id_of(page))
    node.scanners.close("never-was")

    assert pins(node.table) == {}
    with pytest.raises(UnknownOrExpiredScannerError):
        node.scanners.next_page(id_of(page), 1)


def test_close_is_safe_during_a_page_in_flight(node: Node) -> None:
    node.rig.seal(node.table)
    page = node.open(page_bytes=1_000)
    pause = Pause(node.rig)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(node.scanners.next_page, id_of(page), 1)
        assert pause.reached.wait(30)
        node.scanners.close(id_of(page))
        pause.go.set()
        with pytest.raises(UnknownOrExpiredScannerError):
            call.result(30)

    assert node.scanners.list() == []
    assert pins(node.table) == {}
    assert node.number("open") == 0


def test_drained_session_closes_itself(node: Node) -> None:
    *_, last = pages = node.rest(node.open())

    assert node.scanners.list() == []
    assert pins(node.table) == {}
    with pytest.raises(UnknownOrExpiredScannerError):
        node.scanners.next_page(id_of(last), len(pages))


def test_last_page_can_be_had_again_until_the_ttl(node: Node) -> None:
    *_, last = pages = node.rest(node.open())
    number = len(pages) - 1

    node.rig.seal(node.table)
    again = node.scanners.next_page(id_of(last), number)
    node.clock.advance(node.settings.scanner_ttl_ms + 1)

    assert stored(again.batch) == stored(last.batch)
    assert not again.has_more
    with pytest.raises(UnknownOrExpiredScannerError):
        node.scanners.next_page(id_of(last), number)


def test_last_page_is_gone_once_its_snapshot_is(node: Node) -> None:
    *_, last = pages = node.rest(node.open())
    write(node.table, ROWS)
    node.rig.compact(node.table, 200)

    with pytest.raises(UnknownOrExpiredScannerError):
        node.scanners.next_page(id_of(last), len(pages) - 1)


def test_sessions_are_limited_per_bucket_and_the_error_is_retriable(node: Node) -> None:
    pages = [node.open() for _ in range(8)]

    with pytest.raises(TooManyScannersError) as refused:
        node.open()

    assert refused.value.retriable
    assert node.number("rejected") == 1
    node.rest(pages[0])
    assert node.open().has_more


def test_sessions_are_limited_per_server(rig: OpenTableRig) -> None:
    node = Node(rig, Settings(scanners_per_server_max=3))
    other = rig.create("default.other", "id BIGINT, PRIMARY KEY (id)")
    write(other, [{"id": i} for i in range(100)])
    pages = [node.open() for _ in range(3)]

    with pytest.raises(TooManyScannersError):
        node.scanners.open(OpenScan(other.info.table_id, 0, bucket(other), page_bytes=8))

    node.scanners.close(id_of(pages[0]))
    assert node.scanners.open(OpenScan(other.info.table_id, 0, bucket(other), page_bytes=8)).has_more


def test_expired_sessions_make_room(node: Node) -> None:
    for _ in range(8):
        node.open()
    node.clock.advance(node.settings.scanner_ttl_ms + 1)

    assert node.open().has_more
    assert len(node.scanners.list()) == 1


def test_stepping_down_closes_the_sessions_of_the_bucket(node: Node) -> None:
    page = node.open()
    bucket_id = node.table.bucket_id(bucket(node.table))

    node.table.step_down(bucket_id)
    node.scanners.close_bucket(bucket_id)

    with pytest.raises(UnknownOrExpiredScannerError):
        node.scanners.next_page(id_of(page), 1)
    with pytest.raises(NotLeaderError):
        node.open()
    assert node.scanners.list() == []


@pytest.mark.parametrize("pin", [False, True])
def test_open_racing_with_step_down_leaves_no_session_behind(node: Node, pin: bool) -> None:
    node.rig.seal(node.table)
    bucket_id = node.table.bucket_id(bucket(node.table))
    pause = Pause(node.rig)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(node.open, pin=pin)
        assert pause.reached.wait(30)
        node.scanners.close_bucket(bucket_id)
        pause.go.set()
        with pytest.raises(NotLeaderError):
            opening.result(30)

    assert node.scanners.list() == []
    assert pins(node.table) == {}
    assert len([node.open() for _ in range(8)]) == 8


def test_no_page_comes_from_a_bucket_that_is_not_led_here(node: Node) -> None:
    page = node.open()

    node.table.step_down(node.table.bucket_id(bucket(node.table)))

    with pytest.raises(NotLeaderError):
        node.scanners.next_page(id_of(page), 1)
    assert node.scanners.list() == []


def test_resume_token_goes_on_with_the_same_snapshot_after_step_down_and_take_up(node: Node) -> None:
    page = node.open(columns=("id", "city"), filter=node.filter("amount >= 3"))
    bucket_id = node.table.bucket_id(bucket(node.table))
    node.table.step_down(bucket_id)
    node.scanners.close_bucket(bucket_id)
    node.table.take_up(bucket_id)
    write(node.table, [{"id": i, "city": "later", "amount": 0.0} for i in range(100)])

    resumed = node.scanners.open(node.scanners.read_token(page.resume_token))

    assert resumed.log_offset == page.log_offset
    expected = [{"id": row["id"], "city": row["city"]} for row in ROWS[6:]]
    assert page.batch.to_pylist() + node.rows(resumed) == expected


def test_resume_token_goes_on_after_the_session_is_lost_and_on_another_node(node: Node) -> None:
    page = node.open(limit=60)
    node.scanners.close_all()
    other = scan_service(node.rig, node.settings, Metrics(), node.cuts, node.metadata)

    pages = [other.open(other.read_token(page.resume_token))]
    while pages[-1].has_more:
        pages.append(other.open(other.read_token(pages[-1].resume_token)))

    assert [row for part in [page, *pages] for row in part.batch.to_pylist()] == ROWS[:60]


def test_resuming_after_the_last_page_gives_nothing_more(node: Node) -> None:
    last = node.rest(node.open())[-1]

    page = node.scanners.open(node.scanners.read_token(last.resume_token))

    assert (page.scanner_id, page.batch.num_rows, page.has_more) == (None, 0, False)


def test_resuming_below_the_base_says_so(node: Node) -> None:
    page = node.open()
    node.scanners.close(id_of(page))
    write(node.table, ROWS)
    node.rig.compact(node.table, 200)

    with pytest.raises(OffsetOutOfRangeError, match="below the base"):
        node.scanners.open(node.scanners.read_token(page.resume_token))


@pytest.mark.parametrize("change", ["table", "schema", "column", "bucket"])
def test_token_of_another_node_is_refused(node: Node, change: str) -> None:
    token = ResumeToken.decode(node.open().resume_token)
    foreign = {
        "table": replace(token, bucket=token.bucket._replace(table_id=99)),
        "schema": replace(token, schema_id=9),
        "column": replace(token, columns=(0, 17)),
        "bucket": replace(token, bucket=token.bucket._replace(bucket=3)),
    }[change]

    with pytest.raises(TableNotFoundError if change == "table" else InvalidError):
        node.scanners.open(node.scanners.read_token(foreign.encode()))


def test_token_of_a_dropped_partition_is_refused(rig: OpenTableRig) -> None:
    node = Node(rig)
    table: OpenTable = rig.create(
        "default.days", "day STRING, id BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"]
    )
    write(table, [{"day": "mon", "id": i} for i in range(10)])
    page = node.scanners.open(OpenScan(table.info.table_id, 0, bucket(table, 0, "day=mon"), page_bytes=8))
    table.drop_partition({"day": "mon"})

    with pytest.raises(PartitionNotFoundError):
        node.scanners.open(node.scanners.read_token(page.resume_token))


def test_pin_keeps_compaction_below_x_and_frees_it_when_the_session_goes(node: Node) -> None:
    page = node.open()
    write(node.table, ROWS)
    tablet = node.table.committer.tablets[node.table.bucket_id(bucket(node.table))]

    node.rig.compact(node.table, 200)
    held = tablet.pins.base
    node.scanners.close(id_of(page))
    node.rig.compact(node.table, 200)

    assert (held, tablet.pins.base) == (100, 200)


def test_scan_as_of_an_older_offset_shows_the_table_as_it_was(node: Node) -> None:
    write(node.table, [{"id": 0, "city": "later", "amount": 0.0}])

    assert node.rows(node.open(as_of=50)) == ROWS[:50]


@pytest.mark.parametrize("call", ["next_page", "close"])
def test_sessions_are_bound_to_their_principal_on_every_call(node: Node, call: str) -> None:
    ann, bob = node.scanners.acting_as("ann"), node.scanners.acting_as("bob")
    page = ann.open(node.call())

    with pytest.raises(PermissionDeniedError):
        bob.close(id_of(page)) if call == "close" else bob.next_page(id_of(page), 1)

    node.scanners = ann
    assert node.rows(page) == ROWS


def test_scanners_are_listed(node: Node) -> None:
    page = node.scanners.acting_as("ann").open(node.call())
    node.clock.advance(70)

    (info,) = node.scanners.list()

    assert (info.scanner_id, info.bucket, info.log_offset) == (page.scanner_id, bucket(node.table), 100)
    assert (info.principal, info.idle_ms, info.pages) == ("ann", 70, 1)
    assert (info.rows, info.bytes) == (page.batch.num_rows, page.batch.nbytes)
    assert info.opened_ms == node.clock.wall_ms() - 70


def test_anybody_may_kill_a_scanner(node: Node) -> None:
    ann = node.scanners.acting_as("ann")
    page = ann.open(node.call())

    node.scanners.acting_as("bob").kill(id_of(page))

    with pytest.raises(UnknownOrExpiredScannerError):
        ann.next_page(id_of(page), 1)
    with pytest.raises(UnknownOrExpiredScannerError):
        node.scanners.kill(id_of(page))
    assert node.number("evicted") == 1


def test_metrics_count_open_sessions_pages_and_bytes(node: Node) -> None:
    first = node.open()
    assert node.number("open") == 1

    pages = node.rest(first)

    assert node.number("open") == 0
    assert node.number("pages") == len(pages)
    assert node.number("bytes") == sum(page.batch.nbytes for page in pages)


def test_session_keeps_the_cut_that_it_was_opened_with(node: Node) -> None:
    cut = node.cuts.open(node.table, principal=LOCAL)
    page = node.open(cut_id=cut.cut_id, as_of=cut.offsets[bucket(node.table)])
    for number in (1, 2, 3):
        node.clock.advance(node.settings.scanner_ttl_ms)
        node.scanners.next_page(id_of(page), number)

    node.clock.advance(node.settings.scanner_ttl_ms)

    assert node.cuts.reap() == 0


def test_close_all_ends_every_session(node: Node) -> None:
    page = node.open()

    node.scanners.close_all()

    assert pins(node.table) == {}
    with pytest.raises(UnknownOrExpiredScannerError):
        node.scanners.next_page(id_of(page), 1)


def test_scan_of_a_range_gives_the_rows_of_its_offsets_only_and_resumes_within_it(node: Node) -> None:
    first = node.rest(node.open(end=37))
    rest = node.rows(node.open(start=37))

    assert [row for page in first for row in page.batch.to_pylist()] == ROWS[:37]
    assert rest == ROWS[37:]
    assert first[-1].next_offset == 37
    assert (
        node.rows(node.scanners.open(node.scanners.read_token(first[0].resume_token)))
        == ROWS[first[0].next_offset : 37]
    )


def test_scan_opened_with_a_pin_has_a_cut_that_outlives_its_session(node: Node) -> None:
    page = node.open(pin=True)
    scanner_id = id_of(page)
    assert pins(node.table) == {f"scanner-{scanner_id}": 100, f"cut-{page.cut_id}": 100}

    node.clock.advance(node.settings.scanner_ttl_ms - 1)
    node.scanners.next_page(scanner_id, 1)
    node.clock.advance(node.settings.scanner_ttl_ms - 1)
    assert node.cuts.reap() == 0, "a page of the session touches the cut"
    node.scanners.kill(scanner_id)

    assert pins(node.table) == {f"cut-{page.cut_id}": 100}
    assert page.cut_id is not None
    node.cuts.release(page.cut_id)
    assert pins(node.table) == {}


@pytest.mark.parametrize("changes", [{"page_bytes": 1 << 20}, {"limit": 3}, {"start": 100, "as_of": 100}])
def test_scan_of_one_page_pins_nothing_whatever_it_asked_for(node: Node, changes: dict[str, Any]) -> None:
    page = node.open(pin=True, **changes)

    assert not page.has_more
    assert page.cut_id is None
    assert pins(node.table) == {}


@pytest.mark.parametrize("page_bytes", [200, 400, 500, 700, 900, 1_000, 2_000, 1 << 20])
@pytest.mark.parametrize("limit", [None, 16, 17, 99, 100])
def test_pages_of_whole_blocks_cover_every_row_once_and_none_is_empty(
    node: Node, page_bytes: int, limit: int | None
) -> None:
    node.rig.seal(node.table)

    pages = node.rest(node.open(page_bytes=page_bytes, limit=limit))

    assert [row for page in pages for row in page.batch.to_pylist()] == ROWS[:limit]
    assert all(page.batch.num_rows for page in pages)
    assert all(page.batch.nbytes <= page_bytes or page.batch.num_rows == 1 for page in pages)


def test_large_slices_of_blocks_stay_apart_and_each_says_where_the_scan_goes_on(
    node: Node,
) -> None:
    node = Node(node.rig, apart_bytes_min=100, path="default.apart")
    node.rig.seal(node.table)
    delete(node.table, [{"id": i} for i in (3, 16, 17, 50)])
    left = [row for row in ROWS if row["id"] not in (3, 16, 17, 50)]
    pages = node.rest(node.open(page_bytes=1_500))

    assert max(len(page.batches) for page in pages) > 2
    for page in pages:
        for batch, end in zip(page.batches, (*page.inner_ends, page.next_offset), strict=True):
            rest = [row for row in left if row["id"] > batch["id"][-1].as_py()]
            assert node.rows(node.open(as_of=page.log_offset, start=end)) == rest


def test_page_of_several_batches_is_had_again_as_it_was(node: Node) -> None:
    node = Node(node.rig, apart_bytes_min=100, path="default.apart")
    node.rig.seal(node.table)
    first = node.open(page_bytes=1_500)
    page = node.scanners.next_page(id_of(first), 1)

    again = node.scanners.next_page(id_of(first), 1)

    assert len(page.batches) > 2
    assert again.inner_ends == page.inner_ends
    assert [stored(batch) for batch in again.batches] == [stored(batch) for batch in page.batches]


def test_small_slices_of_blocks_are_joined(node: Node) -> None:
    node.rig.seal(node.table)

    pages = node.rest(node.open(page_bytes=1_500))

    assert all(len(page.batches) == 1 and not page.inner_ends for page in pages)
    assert max(page.rows for page in pages) > 16
