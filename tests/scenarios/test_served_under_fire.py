"""Scans, followers and writers while the server is killed and restarted: nothing lost, nothing twice."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.testing.server import ServerProcess

SEED = 7
LAST_IDS = frozenset(range(10_000, 10_100))
# Small pages, so that a kill finds every scan in the middle of something.
SETTINGS = {"kv.scanner.max-per-bucket": 64, "kv.scanner.max-per-server": 512, "kv.scanner.page-bytes": "2KB"}


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ServerProcess]:
    print(f"seed={SEED}")
    with ServerProcess(tmp_path / "data", settings=SETTINGS) as running:
        yield running


@contextmanager
def in_background(*works: Callable[[threading.Event], None]) -> Iterator[threading.Event]:
    """Run functions in threads until the block ends or one of them fails; raise what they raised."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(work, stop) for work in works]
        for future in futures:
            future.add_done_callback(lambda done: stop.set() if done.exception() else None)
        try:
            yield stop
        finally:
            stop.set()
        for future in futures:
            future.result()


@pytest.mark.parametrize(("buckets", "scans", "kills"), [(8, 50, 3), (1, 20, 2)])
def test_every_scan_is_exact_while_writers_write_and_the_server_is_killed(
    process: ServerProcess, buckets: int, scans: int, kills: int
) -> None:
    """Each write sets a whole group of rows to one number, so any mixture of two snapshots shows.

    A group lies in one bucket: a crash may leave a write in some of its buckets until it is sent again.
    """
    groups, group_rows = 40, 100
    with penstock.connect(process.url) as conn:
        table = conn.create_table(
            "t", "g BIGINT, id BIGINT, v BIGINT, PRIMARY KEY (g, id)", buckets=buckets, bucket_key=["g"]
        )

        def batch(group: int, value: int) -> pa.RecordBatch:
            ids = list(range(group * group_rows, (group + 1) * group_rows))
            return pa.record_batch({"id": ids, "g": [group] * group_rows, "v": [value] * group_rows})

        for group in range(groups):
            table.upsert(batch(group, 0))

        def write(stop: threading.Event) -> None:
            dice = random.Random(SEED)
            value = 0
            while not stop.wait(0.001):
                value += 1
                table.upsert(batch(dice.randrange(groups), value))

        def scan(_: int) -> None:
            with table.scan() as found:
                rows = found.to_arrow()
            assert rows.num_rows == groups * group_rows
            assert pc.count_distinct(rows["id"]).as_py() == groups * group_rows
            spread = rows.group_by("g").aggregate([("v", "min"), ("v", "max")])
            assert spread["v_min"] == spread["v_max"]

        with in_background(write), ThreadPoolExecutor(10) as pool:
            done = [pool.submit(scan, number) for number in range(scans)]
            for killed in range(1, kills + 1):
                done[killed * scans // (kills + 1)].result()
                process.restart()
            for future in done:
                future.result()


class Follower:
    """A copy of a table, kept by its changes alone. Refuses a change that does not fit what it has."""

    def __init__(self, table: penstock.Table) -> None:
        self.rows: dict[int, int] = {}
        self.reached = threading.Event()
        self._table = table

    def follow(self, _: threading.Event) -> None:
        with self._table.snapshot_and_follow() as stream:
            for changes in stream:
                for row in changes.to_pylist():
                    self._apply(row)
                if self.rows.keys() >= LAST_IDS:
                    self.reached.set()
                    return

    def _apply(self, row: dict[str, Any]) -> None:
        if row["_change_type"] in ("-U", "-D"):
            assert self.rows.pop(row["id"]) == row["v"], row
        else:
            assert row["id"] not in self.rows, row
            self.rows[row["id"]] = row["v"]


def test_follower_equals_the_table_after_writes_and_kills(process: ServerProcess) -> None:
    with penstock.connect(process.url) as conn:
        table = conn.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)", buckets=4)
        table.upsert(pa.record_batch({"id": list(range(5_000)), "v": [0] * 5_000}))
        follower = Follower(table)

        def write(stop: threading.Event) -> None:
            dice = random.Random(SEED)
            value = 0
            while not stop.wait(0.002):
                value += 1
                table.upsert(pa.record_batch({"id": dice.sample(range(6_000), 20), "v": [value] * 20}))
                table.delete([{"id": dice.randrange(6_000)}])

        with in_background(follower.follow) as followed:
            with in_background(write):
                for _ in range(3):
                    before = sum(table.cut().values())
                    while sum(table.cut().values()) < before + 500:
                        assert not followed.is_set()
                    process.restart()
            # Rows for every bucket: who has them all has everything before them.
            written = table.upsert(pa.record_batch({"id": sorted(LAST_IDS), "v": [1] * len(LAST_IDS)}))
            assert len(written.offsets) == 4
            assert follower.reached.wait(60)

        rows = table.scan().to_arrow().to_pylist()

    assert follower.rows == {row["id"]: row["v"] for row in rows}


def test_appended_rows_are_there_once_whatever_was_sent_again(process: ServerProcess) -> None:
    with penstock.connect(process.url) as conn:
        table = conn.create_table("log", pa.schema([("n", pa.int64())]), buckets=2)

        def append(_: threading.Event) -> None:
            with table.writer(batch_rows=100) as writer:
                for start in range(0, 20_000, 100):
                    writer.append(pa.record_batch({"n": list(range(start, start + 100))}))

        with in_background(append):
            for _ in range(3):
                before = sum(end for _, end in table.offsets().values())
                while sum(end for _, end in table.offsets().values()) == before < 20_000:
                    pass
                process.restart()

        found = sorted(table.scan().to_arrow()["n"].to_pylist())

    assert found == list(range(20_000))
