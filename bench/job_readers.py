"""A reader beside a heavy writer and compaction: its longest pause, beside its longest pause alone."""

from __future__ import annotations

import threading
import time
from itertools import cycle

import penstock
from bench.measurement import Measurement
from bench.workload import SCHEMA, Workload

SECONDS = 5.0


def run(work: Workload) -> list[Measurement]:
    """Scan over and over, alone and while every row is updated all the time; each scan is counted."""
    with work.directory() as directory, penstock.connect(directory / "data") as conn:
        table = conn.create_table("bench", SCHEMA, primary_key=["id"], properties={"log.retention": "1s"})
        for batch in work.batches():
            table.upsert(batch)
        alone = _longest_pause(table, work.rows)
        stop = threading.Event()
        batches = cycle(work.batches(salt=1))

        def write() -> None:
            while not stop.is_set():
                table.upsert(next(batches))

        writer = threading.Thread(target=write)
        writer.start()
        try:
            beside = _longest_pause(table, work.rows)
        finally:
            stop.set()
            writer.join()
    return [Measurement("longest pause of a reader beside a writer", "ms", beside, "the reader alone, ms", alone)]


def _longest_pause(table: penstock.Table, rows: int) -> float:
    """Return the longest time, in milliseconds, that a scanning reader waited for its next batch."""
    longest, end = 0.0, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        last, seen = time.perf_counter(), 0
        for batch in table.scan(columns=["id", "amount"]):
            now = time.perf_counter()
            longest, last, seen = max(longest, now - last), now, seen + batch.num_rows
        assert seen == rows, f"{seen} rows instead of {rows}"
    return 1000 * longest
