"""A server in a process of its own, over loopback, beside a bare Flight process with the same rows or beside embedded.

Each pair takes turns, so that whatever else the machine does falls on both.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import flight

import penstock
from bench.bare_flight import bare_flight
from bench.measurement import Measurement, timed
from bench.workload import SCHEMA, Workload
from penstock.testing.server import ServerProcess

SMALL_ROWS = 1_000
SMALL_SCANS = 100
SINGLES = 500
MANY = 10_000
READERS = 16
SCANS_EACH = 8
TURNS = 9

Pair = tuple[list[float], list[float]]
"""Seconds of our runs, and of those beside."""


def run(work: Workload) -> list[Measurement]:
    """Write, scan and look up as a client on the same machine does."""
    with work.directory() as directory:
        return [*_replaced(work, directory), *_written_once(work, directory)]


def _replaced(work: Workload, directory: Path) -> list[Measurement]:
    """Measure a table each of whose rows was written three times."""
    with ServerProcess(directory / "served") as server, penstock.connect(server.url) as served:
        # Closed before the rest: its own work in the background would slow this process down.
        with penstock.connect(directory / "embedded") as embedded:
            measurements = [_writes(work, served, embedded)]
            measurements.append(_lookups(work, served.table("bench"), embedded.table("bench")))
        table = served.table("bench")
        _start_anew(server)
        with bare_flight(pa.Table.from_batches(list(table.scan())), directory) as bare:
            measurements += _single_lookups(work, table, bare)
            measurements.append(_scans("scan, served, each row replaced three times", table, bare, work.rows))
    return measurements


def _written_once(work: Workload, directory: Path) -> list[Measurement]:
    """Measure tables whose rows were written once, on a server that has no others to look after."""
    with ServerProcess(directory / "once") as server, penstock.connect(server.url) as served:
        table, small = _create(served, "once"), _create(served, "small")
        small.upsert(work.batches(batch_rows=SMALL_ROWS)[0])
        for batch in work.batches():
            table.upsert(batch)
        _start_anew(server)
        with bare_flight(small.scan().to_arrow(), directory) as bare:
            measurements = _small_scans(small, bare)
        with bare_flight(pa.Table.from_batches(list(table.scan())), directory) as bare:
            measurements.append(_scans("scan, served", table, bare, work.rows))
    return measurements


def _start_anew(server: ServerProcess) -> None:
    """Restart, so that nobody is measured while the server still files away what it was given."""
    server.stop()
    server.start()


def _writes(work: Workload, served: penstock.Connection, embedded: penstock.Connection) -> Measurement:
    batches = work.batches()

    def write(table: penstock.Table) -> None:
        with table.writer(batch_rows=batches[0].num_rows) as writer:
            for batch in batches:
                writer.upsert(batch)

    one, other = (_create(connection, "bench") for connection in (served, embedded))
    pair = _in_turn(lambda: write(one), lambda: write(other), turns=3)
    return _compared("upserts, served", "rows/s", "the same, embedded", pair, work.rows)


def _lookups(work: Workload, served: penstock.Table, embedded: penstock.Table) -> Measurement:
    keys = pa.array(np.random.default_rng(work.seed).integers(0, work.rows, MANY))
    pair = _in_turn(lambda: served.lookup(keys), lambda: embedded.lookup(keys))
    return _compared("lookup of 10,000 keys, served", "keys/s", "the same, embedded", pair, MANY)


def _scans(job: str, table: penstock.Table, bare: flight.FlightClient, rows: int) -> Measurement:
    pair = _in_turn(lambda: table.scan().to_arrow(), lambda: bare.do_get(flight.Ticket(b"all")).read_all())
    return _compared(job, "rows/s", "bare Flight do_get", pair, rows)


def _single_lookups(work: Workload, table: penstock.Table, bare: flight.FlightClient) -> list[Measurement]:
    keys = np.random.default_rng(work.seed).integers(0, work.rows, SINGLES).tolist()
    writer, reader = bare.do_exchange(flight.FlightDescriptor.for_command(b"echo"))

    def echo() -> None:
        for key in keys:
            writer.write_metadata(key.to_bytes(400))
            reader.read_chunk()

    def look(some: list[int]) -> None:
        for key in some:
            table.lookup([key])

    def at_once() -> None:
        with ThreadPoolExecutor(READERS) as readers:
            list(readers.map(look, [keys] * READERS))

    one, many = _in_turn(lambda: look(keys), echo), _in_turn(at_once, echo, turns=3)
    writer.close()
    beside = "bare Flight exchange of 400 bytes"
    rate = _compared("lookup of 1 key, served, 16 threads", "keys/s", beside, many, SINGLES)
    return [
        _compared("lookup of 1 key, served", "keys/s", beside, one, SINGLES),
        replace(rate, ours=rate.ours * READERS),
    ]


def _small_scans(table: penstock.Table, bare: flight.FlightClient) -> list[Measurement]:
    def ours(count: int) -> None:
        for _ in range(count):
            assert table.scan().to_arrow().num_rows == SMALL_ROWS

    def theirs(count: int) -> None:
        for _ in range(count):
            assert bare.do_get(flight.Ticket(b"all")).read_all().num_rows == SMALL_ROWS

    def at_once(work: Callable[[int], None]) -> None:
        with ThreadPoolExecutor(READERS) as readers:
            list(readers.map(work, [SCANS_EACH] * READERS))

    one = _in_turn(lambda: ours(SMALL_SCANS), lambda: theirs(SMALL_SCANS))
    many = _in_turn(lambda: at_once(ours), lambda: at_once(theirs))
    beside = "bare Flight do_get"
    return [
        _compared("scan of 1,000 rows, served", "scans/s", beside, one, SMALL_SCANS),
        _compared("scan of 1,000 rows, served, 16 readers", "scans/s", beside, many, READERS * SCANS_EACH),
    ]


def _create(connection: penstock.Connection, path: str) -> penstock.Table:
    return connection.create_table(path, SCHEMA, primary_key=["id"])


def _in_turn(ours: Callable[[], object], theirs: Callable[[], object], turns: int = TURNS) -> Pair:
    """Run both a few times, in turn; the first run of each is not counted."""
    pairs = [(timed(ours, repeats=1).seconds, timed(theirs, repeats=1).seconds) for _ in range(turns + 1)]
    return [one for one, _ in pairs[1:]], [other for _, other in pairs[1:]]


def _compared(job: str, unit: str, beside: str, pair: Pair, count: int) -> Measurement:
    ours, theirs = (statistics.median(seconds) for seconds in pair)
    return Measurement(job, unit, count / ours, beside, count / theirs, 100 * (max(pair[0]) - ours) / ours)
