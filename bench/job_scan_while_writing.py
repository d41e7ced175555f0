"""Scan while writing: one thread replaces rows all the time, another scans; each scan must hold every row."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import cycle

from bench.agreement import agree
from bench.contest import each_peer, figure, running
from bench.loading import load
from bench.measurement import Figure, Score, timing
from bench.peers.peer import Peer, Scans, Session
from bench.workload import Workload

COLUMNS = ("id", "amount")
SECONDS_MAX = 5.0
ROWS_PER_SECOND = 20_000
"""A small table needs less time to be scanned often."""


def run(work: Workload) -> list[Figure]:
    """Scan two columns for some seconds beside a writer in a session of its own."""
    return each_peer(work, _enter)


def _enter(peer: Peer, work: Workload) -> Iterator[Figure]:
    with work.directory() as directory, running(peer, directory):
        reader, writer = peer.session(), peer.session()
        try:
            if isinstance(reader, Scans):
                load(writer, work)
                for score in _beside(reader, writer, work):
                    yield figure(peer, score)
        finally:
            reader.close()
            writer.close()


def _beside(reader: Scans, writer: Session, work: Workload) -> Iterator[Score]:
    stop, written = threading.Event(), 0
    batches = cycle(work.batches(salt=1))

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            batch = next(batches)
            writer.upsert(batch)
            written += batch.num_rows

    thread = threading.Thread(target=write)
    enough = min(SECONDS_MAX, work.rows / ROWS_PER_SECOND)
    start = time.perf_counter()
    thread.start()
    seconds: list[float] = []
    try:
        while time.perf_counter() - start < enough or not seconds:
            began = time.perf_counter()
            found = reader.scan(COLUMNS).num_rows
            seconds.append(time.perf_counter() - began)
            agree("a scan beside a writer", found, work.rows)
    finally:
        stop.set()
        thread.join()
    took = timing(seconds)
    yield took.score("scan, two columns, beside a writer", work.rows)
    yield Score("the writer meanwhile", "rows/s", written / (time.perf_counter() - start))
