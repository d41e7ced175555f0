"""Pages of several batches over the network: read at once, one by one, from the middle, and given up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.client.remote.call_stream import CallStream
from penstock.engine.engine import Engine
from penstock.log import tail
from penstock.model.node.calls import OpenScan, Page
from penstock.testing.server import server
from penstock.wire.frame import decode_frame

ROWS = 3_000


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[penstock.Connection]:
    # Blocks of a few rows stand for those of a megabyte.
    monkeypatch.setattr(tail, "CHUNK_ROWS_MAX", 64)
    with server(settings={"kv.scanner.page-bytes": "16kB"}) as running:
        assert isinstance(running.node, Engine)
        # Before the first call: each principal's facet is a copy of the service.
        running.node.scan._apart_bytes_min = 1
        with penstock.connect(running.url) as made:
            yield made


@pytest.fixture
def table(connection: penstock.Connection) -> penstock.Table:
    made = connection.create_table("t", "id BIGINT, note STRING, PRIMARY KEY (id)")
    for start in range(0, ROWS, 60):
        made.upsert([{"id": n, "note": f"note {n}"} for n in range(start, start + 60)])
    made.delete(list(range(0, ROWS, 7)))
    return made


def ids(batches: Iterator[pa.RecordBatch] | penstock.Scan) -> list[int]:
    return [n for batch in batches for n in batch["id"].to_pylist()]


def test_rows_are_the_same_read_at_once_and_batch_by_batch(table: penstock.Table) -> None:
    whole = table.scan().to_arrow()

    assert sorted(whole["id"].to_pylist()) == ids(iter(whole.sort_by("id").to_batches()))
    assert ids(table.scan()) == whole["id"].to_pylist()
    assert len(set(whole["id"].to_pylist())) == len(whole) == table.stats().live_rows


def test_a_scan_is_resumed_after_any_batch_of_a_page(connection: penstock.Connection, table: penstock.Table) -> None:
    everything = table.scan().to_arrow()["id"].to_pylist()
    seen: list[int] = []
    scan = table.scan()
    for count, batch in enumerate(scan):
        seen += batch["id"].to_pylist()
        if count % 3 == 0:
            rest = connection.resume_scan(scan.resume_token).to_arrow()["id"].to_pylist()
            assert seen + rest == everything


def test_a_page_that_nobody_waits_for_any_more_leaves_the_connection_usable(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    node, info = connection._link.node, table.info
    first = node.scan.open(OpenScan(info.table_id, info.schema_id, next(iter(table.offsets()))))
    assert first.scanner_id is not None
    pages = node.scan.pages(first.scanner_id, 1)
    page = next(pages)

    pages.close()

    assert isinstance(page, Page)
    assert len(page.batches) > 1
    assert len(table.scan().to_arrow()) == table.stats().live_rows


def test_the_next_page_is_asked_for_while_one_still_arrives(
    table: penstock.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    early: list[bool] = []
    ask = CallStream.ask

    def asked(self: CallStream, request: pa.Buffer, **options: Any) -> object:
        early.append(self.owed > 0)
        return ask(self, request, **options)

    monkeypatch.setattr(CallStream, "ask", asked)
    table.scan().to_arrow()
    hurried = sum(early)
    early.clear()
    ids(table.scan())

    assert hurried >= 1
    assert not any(early)


def test_small_buckets_are_read_in_three_calls_and_a_limit_opens_no_more_than_it_needs(
    connection: penstock.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = connection.create_table("b", "id BIGINT, note STRING, PRIMARY KEY (id)", buckets=8)
    table.upsert([{"id": n, "note": "x"} for n in range(100)])
    calls: list[str] = []
    ask = CallStream.ask

    def asked(self: CallStream, request: pa.Buffer, **options: Any) -> object:
        calls.append(decode_frame(request).header["call"])
        return ask(self, request, **options)

    monkeypatch.setattr(CallStream, "ask", asked)

    assert len(table.scan().to_arrow()) == 100
    assert calls == ["open_cut", "open_scanners", "release_cut"]
    calls.clear()
    assert len(table.scan(limit=3).to_arrow()) == 3
    assert calls == ["open_cut", "open_scanner", "release_cut"]
