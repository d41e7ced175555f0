"""Readers outlast a server that is paused for longer than any timeout of theirs, or is away for a while."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.client.changes.stream import ChangeStream
from penstock.client.connection import Connection
from penstock.client.remote.node import RemoteNode
from penstock.client.table import Table
from penstock.errors import TimedOutError
from penstock.testing.server import ServerProcess

TIMEOUT_MS = 300
DEADLINE_MS = 500
AWAY_SECONDS = 1.5
"""Longer than a call's timeout, and than other calls are tried again; readers wait for ten seconds more."""
ROWS = 3_000
PATIENT_MS = 30_000


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {"log.fsync": "never", "kv.scanner.page-bytes": 4096}
    with ServerProcess(tmp_path_factory.mktemp("paused") / "data", settings=settings) as process:
        yield process


@pytest.fixture
def connection(process: ServerProcess) -> Iterator[Connection]:
    with Connection(RemoteNode(process.url, timeout_ms=TIMEOUT_MS), process.url, distant=True) as connection:
        connection._link.retry = replace(connection._link.retry, deadline_ms=DEADLINE_MS)
        yield connection


@pytest.fixture
def table(process: ServerProcess) -> Iterator[Table]:
    """Return a table, opened by somebody who has all the time that there is."""
    with Connection(RemoteNode(process.url), process.url, distant=True) as patient:
        patient._link.retry = replace(patient._link.retry, deadline_ms=PATIENT_MS)
        patient.drop_table("t", if_exists=True)
        table = patient.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)", buckets=2)
        write(table, 0, ROWS)
        yield table


def write(table: Table, start: int, end: int) -> None:
    table.upsert(pa.table({"id": range(start, end), "v": range(start, end)}))


def write_later(back: threading.Timer, table: Table, start: int, end: int) -> None:
    back.join()
    write(table, start, end)


def pause(process: ServerProcess) -> Callable[[], None]:
    pid = process.pid
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def kill(process: ServerProcess) -> Callable[[], None]:
    process.kill()
    return process.start


Away = Callable[[ServerProcess], Callable[[], None]]
aways = pytest.mark.parametrize("away", [pause, kill])


def while_away(process: ServerProcess, away: Away) -> threading.Timer:
    """Take the server away now, and bring it back later."""
    timer = threading.Timer(AWAY_SECONDS, away(process))
    timer.start()
    return timer


def ids(batches: list[pa.RecordBatch]) -> list[int]:
    return [row for batch in batches for row in batch["id"].to_pylist()]


def read_until(stream: ChangeStream, rows: int) -> list[int]:
    found: list[int] = []
    while len(found) < rows:
        found += next(stream)["id"].to_pylist()
    return found


@aways
def test_following_stream_goes_on_without_a_row_lost_or_doubled(
    process: ServerProcess, connection: Connection, table: Table, away: Away
) -> None:
    with connection.table("t").changes(start="earliest", follow=True) as stream:
        before = read_until(stream, ROWS)
        back = while_away(process, away)
        later = threading.Thread(target=write_later, args=(back, table, ROWS, 2 * ROWS))
        later.start()
        after = read_until(stream, ROWS)
        later.join()

    assert sorted(before) == list(range(ROWS))
    assert sorted(after) == list(range(ROWS, 2 * ROWS))


@aways
def test_snapshot_and_follow_goes_on_from_the_middle_of_its_snapshot(
    process: ServerProcess, connection: Connection, table: Table, away: Away
) -> None:
    with connection.table("t").snapshot_and_follow() as stream:
        found = next(stream)["id"].to_pylist()
        back = while_away(process, away)
        later = threading.Thread(target=write_later, args=(back, table, ROWS, ROWS + 10))
        later.start()
        found += read_until(stream, ROWS + 10 - len(found))
        later.join()

    assert sorted(found) == list(range(ROWS + 10))


@aways
def test_scan_goes_on_from_its_middle(process: ServerProcess, connection: Connection, table: Table, away: Away) -> None:
    with connection.table("t").scan() as scan:
        batches = [next(scan)]
        back = while_away(process, away)
        batches += list(scan)
        back.join()

    assert len(batches) > 3
    assert sorted(ids(batches)) == list(range(ROWS))


@aways
def test_stream_that_is_closed_while_the_server_is_away_ends(
    process: ServerProcess, connection: Connection, table: Table, away: Away
) -> None:
    connection._link.retry = replace(connection._link.retry, deadline_ms=PATIENT_MS)
    stream = connection.table("t").changes(start="latest", follow=True)
    ended = threading.Event()
    seen: list[pa.RecordBatch] = []

    def follow() -> None:
        seen.extend(stream)
        ended.set()

    reader = threading.Thread(target=follow)
    reader.start()
    back = away(process)
    assert not ended.wait(3 * TIMEOUT_MS / 1000)
    stream.close()
    assert ended.wait(20)
    reader.join()
    back()
    assert seen == []


def test_call_that_nobody_answered_in_time_is_tried_again(
    process: ServerProcess, connection: Connection, table: Table
) -> None:
    # An attempt takes longer than all the time for trying again: that counts from the first failure.
    connection._link.retry = replace(connection._link.retry, deadline_ms=TIMEOUT_MS // 2)
    mine = connection.table("t")
    resume = pause(process)
    timer = threading.Timer(1.3 * TIMEOUT_MS / 1000, resume)
    timer.start()
    found = None
    try:
        found = mine.get(id=7)
    except TimedOutError as error:
        pytest.fail(f"it was not tried again: {error}")
    finally:
        timer.join()
    assert found == {"id": 7, "v": 7}
