"""What a row costs as the table grows, batches shrink, clients multiply, columns widen, buckets multiply."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa

import penstock
from bench.contest import running
from bench.loading import each
from bench.measurement import Point, timed, timing
from bench.peers.peer import Peer, Session
from bench.workload import SCHEMA, Workload, rows

GROWTH = (1, 4, 16)
BATCH_ROWS = (10_000, 1_000, 100, 10, 1)
CALLS_MAX = 200
CLIENTS = (1, 4, 16)
CLIENT_ROWS = 1_000
COLUMNS = (5, 50, 200)
BUCKETS = (1, 16, 256)


def run(work: Workload) -> list[Point]:
    """Measure each axis; fewer rows than the other jobs where every point needs a table of its own."""
    part = replace(work, rows=max(work.rows // 5, min(work.rows, 20_000)))
    return [
        *_as_the_table_grows(work),
        *_as_batches_shrink(part),
        *_as_clients_multiply(part),
        *_as_columns_widen(replace(work, rows=max(work.rows // 20, min(work.rows, 20_000)))),
        *_as_buckets_multiply(part),
    ]


def _as_the_table_grows(work: Workload) -> Iterator[Point]:
    """Grow one table; at each size replace as many random rows as it began with, and scan it."""
    plot = "the table grows (rows)"
    with _table(work, SCHEMA) as table:
        size = 0
        for times in (times for times in GROWTH if times <= work.growth):
            for start in range(size, times * work.rows, work.batch_rows):
                table.upsert(rows(np.arange(start, min(start + work.batch_rows, times * work.rows))))
            size = times * work.rows
            # Every so many rows one: the updates touch the whole of the table.
            ids = work.ids(salt=times) * times
            spread = [rows(ids[at : at + work.batch_rows], times) for at in range(0, len(ids), work.batch_rows)]
            took = timed(each(table.upsert, spread), 1)
            yield Point(plot, "upsert", size, 1e6 * took.seconds / work.rows)
            scan = timed(lambda: table.scan().to_arrow(), work.repeats, warm=1)
            yield Point(plot, "scan", size, 1e6 * scan.seconds / size)


def _as_batches_shrink(work: Workload) -> Iterator[Point]:
    with _table(work, SCHEMA) as table:
        for batch in work.batches():
            table.upsert(batch)
        for size in BATCH_ROWS:
            batches = work.batches(salt=1, batch_rows=size)[:CALLS_MAX] if size <= work.rows else []
            if batches:
                took = timed(each(table.upsert, batches), work.repeats)
                count = sum(batch.num_rows for batch in batches)
                # A call has a cost of its own: it is shared by the rows of a batch, so cost times rows must not grow.
                yield Point("batches shrink (rows)", "upsert", size, 1e6 * took.seconds / count, share=size)


def _as_clients_multiply(work: Workload) -> Iterator[Point]:
    """Write the same rows from more and more clients of each server, each with a connection of its own."""
    for peer in work.peers:
        if peer.name in ("Penstock, served", "PostgreSQL"):
            for clients in CLIENTS:
                with work.directory() as directory, running(peer, directory):
                    # The first time a server is cold.
                    first, *others = [_written_by(peer, clients, work) for _ in range(1 + work.repeats)]
                seconds = timing(others or [first]).seconds
                yield Point("clients multiply", f"{peer.name}, upsert", clients, 1e6 * seconds / work.rows)


def _written_by(peer: Peer, clients: int, work: Workload) -> float:
    """Return the seconds in which so many clients wrote all rows."""
    sessions = [peer.session() for _ in range(clients)]
    try:
        sessions[0].create()
        batches = work.batches(batch_rows=CLIENT_ROWS)
        # Clients of disjoint rows: what is measured is the server, not the waits for each other's rows.
        shares = [batches[number::clients] for number in range(clients)]
        threads = [
            threading.Thread(target=_write, args=(session, share))
            for session, share in zip(sessions, shares, strict=True)
        ]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start
    finally:
        for session in sessions:
            session.close()


def _as_columns_widen(work: Workload) -> Iterator[Point]:
    for width in COLUMNS:
        wide = [widened(batch, width) for batch in work.batches()]
        with _table(work, wide[0].schema) as table:
            for batch in wide:
                table.upsert(batch)
            took = timed(each(table.upsert, wide), work.repeats)
            scan = timed(lambda t=table: t.scan().to_arrow(), work.repeats, warm=1)  # type: ignore[misc]
        for line, seconds in (("upsert", took.seconds), ("scan", scan.seconds)):
            # A row has as many cells as columns: linear means that a cell costs the same.
            yield Point("columns widen", line, width, 1e6 * seconds / work.rows, share=COLUMNS[0] / width)


def _as_buckets_multiply(work: Workload) -> Iterator[Point]:
    for buckets in BUCKETS:
        with _table(work, SCHEMA, buckets) as table:
            for batch in work.batches():
                table.upsert(batch)
            updates = work.batches(salt=1)
            took = timed(each(table.upsert, updates), work.repeats)
            scan = timed(lambda t=table: t.scan().to_arrow(), work.repeats, warm=1)  # type: ignore[misc]
        for line, seconds in (("upsert", took.seconds), ("scan", scan.seconds)):
            # A bucket is a log of its own: linear means that a batch pays for each bucket that it reaches.
            yield Point("buckets multiply", line, buckets, 1e6 * seconds / work.rows, share=BUCKETS[0] / buckets)


def widened(batch: pa.RecordBatch, width: int) -> pa.RecordBatch:
    """Return the rows with their columns, but the key, repeated up to `width`."""
    names = SCHEMA.names[1:]
    repeated = [names[number % len(names)] for number in range(width - 1)]
    fields = [SCHEMA.field(name).with_name(f"{name}{number}") for number, name in enumerate(repeated)]
    arrays = [batch.column("id"), *(batch.column(name) for name in repeated)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([SCHEMA.field("id"), *fields]))


@contextmanager
def _table(work: Workload, schema: pa.Schema, buckets: int = 1) -> Iterator[penstock.Table]:
    with work.directory() as directory, penstock.connect(directory / "data") as connection:
        yield connection.create_table("bench", schema, primary_key=["id"], buckets=buckets)


def _write(session: Session, batches: Iterable[pa.RecordBatch]) -> None:
    for batch in batches:
        session.upsert(batch)
