"""A copy of a table is made by hand while writers write and the server is killed: scan, then follow from X.

What a follower does for itself: it keeps the cut of its scan, stores its position now and then, and
goes on at it with another connection. Writers that add are applied once, whatever was sent again.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.testing.server import ServerProcess

SEED = 11
BUCKETS = 4
LAST_IDS = range(10_000, 10_100)
# Small pages, so that a kill finds the scan in the middle.
SETTINGS = {"kv.scanner.page-bytes": "2KB"}


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ServerProcess]:
    print(f"seed={SEED}")
    with ServerProcess(tmp_path / "data", settings=SETTINGS) as running:
        yield running


class Copy:
    """A copy of a table. Refuses a change that leaves a gap, comes twice, or does not fit the rows."""

    def __init__(self, url: str) -> None:
        self.rows: dict[int, int] = {}
        self.reached: dict[int, int] = {}
        self._url = url

    def bootstrap(self, killed: threading.Event) -> dict[penstock.TableBucket, int]:
        """Read the whole table at one cut; a kill comes in between."""
        with penstock.connect(self._url) as conn, conn.table("t").scan() as scan:
            start = dict(scan.log_offsets)
            for number, batch in enumerate(scan):
                if number == 3:
                    killed.wait(120)
                for row in batch.to_pylist():
                    assert row["id"] not in self.rows, row
                    self.rows[row["id"]] = row["v"]
        self.reached = {bucket.bucket: x for bucket, x in start.items()}
        return start

    def follow(self, start: Any, batches: int) -> str | None:
        """Apply so many batches of changes; return the position, None at the end of all."""
        with penstock.connect(self._url) as conn, conn.table("t").changes(start=start, follow=True) as stream:
            for _, changes in zip(range(batches), stream, strict=False):
                for row in changes.to_pylist():
                    self._apply(row)
                if self.rows.keys() >= set(LAST_IDS):
                    return None
            return stream.position

    def _apply(self, row: dict[str, Any]) -> None:
        assert row["_offset"] == self.reached[row["_bucket"]], f"a gap, or twice: {row}"
        if row["_change_type"] in ("-U", "-D"):
            assert self.rows.pop(row["id"]) == row["v"], row
        else:
            assert row["id"] not in self.rows, row
            self.rows[row["id"]] = row["v"]
        if row["_change_type"] != "-U":
            self.reached[row["_bucket"]] += 1


@contextmanager
def writing(table: penstock.Table) -> Iterator[None]:
    """Upsert and delete at random until the block ends."""
    stop = threading.Event()

    def write() -> None:
        dice = random.Random(SEED)
        value = 0
        while not stop.wait(0.005):
            value += 1
            table.upsert(pa.record_batch({"id": dice.sample(range(3_000), 20), "v": [value] * 20}))
            table.delete([{"id": dice.randrange(3_000)}])

    with ThreadPoolExecutor(1) as pool:
        writer: Future[None] = pool.submit(write)
        try:
            yield
        finally:
            stop.set()
            writer.result()


def test_scan_then_changes_from_its_cut_make_a_copy_without_gap_or_duplicate(process: ServerProcess) -> None:
    with penstock.connect(process.url) as conn, ThreadPoolExecutor(1) as pool:
        table = conn.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)", buckets=BUCKETS)
        table.upsert(pa.record_batch({"id": list(range(2_000)), "v": [0] * 2_000}))
        copy, killed = Copy(process.url), threading.Event()

        def make_copy() -> None:
            position: Any = copy.bootstrap(killed)
            while position is not None:
                position = copy.follow(position, batches=10)

        with writing(table):
            copying = pool.submit(make_copy)
            for _ in range(3):
                before = sum(table.cut().values())
                while sum(table.cut().values()) < before + 200:
                    assert not copying.done() or copying.result() is None
                process.restart()
                killed.set()
        table.upsert(pa.record_batch({"id": list(LAST_IDS), "v": [1] * len(LAST_IDS)}))
        copying.result(120)

        rows = table.scan().to_arrow().to_pylist()

    assert copy.rows == {row["id"]: row["v"] for row in rows}


def test_sums_count_every_row_once_whatever_the_writers_sent_again(process: ServerProcess) -> None:
    threads, calls, slots, kills = 3, 120, 40, 3
    with penstock.connect(process.url) as conn, ThreadPoolExecutor(threads) as pool:
        table = conn.create_table("t", "id BIGINT, n BIGINT SUM, PRIMARY KEY (id)", buckets=BUCKETS)
        one = pa.record_batch({"id": list(range(slots)), "n": [1] * slots})

        def add(number: int) -> None:
            if number == 0:
                for _ in range(calls):
                    table.upsert(one)
                return
            with table.writer(batch_rows=slots) as writer:
                for _ in range(calls):
                    writer.upsert(one)

        adding = [pool.submit(add, number) for number in range(threads)]
        for _ in range(kills):
            before = sum(table.cut().values())
            while sum(table.cut().values()) == before and not all(one.done() for one in adding):
                pass
            process.restart()
        for future in adding:
            future.result()

        found = {row["n"] for row in table.scan().to_arrow().to_pylist()}

    assert found == {threads * calls}
