"""A server or a client is killed between two batches of a pipelined writer: sent again, each counts once.

Run as a script, this file is the client: it has its first batch acknowledged, sends the second behind it, and dies.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.model.node.calls import WriteCall
from penstock.testing.server import ServerProcess

ROWS = 20_000
WRITER = b"w" * 16
# Each batch has half of its keys in common with the one before.
SUMS = {n: 2 if ROWS // 2 <= n < ROWS else 1 for n in range(ROWS + ROWS // 2)}
LOGGED = sorted([*range(ROWS), *range(ROWS // 2, ROWS + ROWS // 2)])


def create_tables(connection: penstock.Connection) -> None:
    connection.create_table("sums", "n BIGINT, v BIGINT SUM, PRIMARY KEY (n)", buckets=3)
    connection.create_table("log", "n BIGINT, v BIGINT", buckets=3)


def batches(connection: penstock.Connection, path: str) -> list[WriteCall]:
    """Return the two batches, always the same, as the same writer's."""
    table = connection.table(path)
    calls = []
    for sequence in range(2):
        start = sequence * ROWS // 2
        rows = pa.record_batch({"n": pa.array(range(start, start + ROWS)), "v": pa.array([1] * ROWS)})
        call = table._requests.append(rows) if path == "log" else table._requests.upsert(rows)
        calls.append(replace(call, writer_id=WRITER, sequence=sequence))
    return calls


def send_again(connection: penstock.Connection, path: str) -> None:
    """Send both batches, as a writer does that does not know what arrived, and once more."""
    link = connection._link
    for _ in range(2):
        for call in batches(connection, path):
            link.retry.run(lambda call=call: link.node.tables.write(call))  # type: ignore[misc]


def check(connection: penstock.Connection, path: str) -> None:
    rows = connection.table(path).scan().to_arrow()
    if path == "log":
        assert sorted(rows["n"].to_pylist()) == LOGGED
    else:
        assert dict(zip(rows["n"].to_pylist(), rows["v"].to_pylist(), strict=True)) == SUMS


@pytest.mark.parametrize("sent_ahead", [False, True])
@pytest.mark.parametrize("path", ["sums", "log"])
def test_server_killed_between_two_batches_has_each_once(path: str, sent_ahead: bool, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, penstock.connect(server.url) as connection:
        create_tables(connection)
        first, second = batches(connection, path)
        writes = connection._link.node.tables.write_stream()
        assert writes is not None
        with closing(writes):
            writes.send(first)
            if sent_ahead:
                writes.send(second)
            writes.result()
            server.kill()
        server.start()
        assert connection.table(path).scan().to_arrow().num_rows >= ROWS

        send_again(connection, path)

        check(connection, path)


@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize("path", ["sums", "log"])
def test_client_killed_between_two_batches_leaves_the_same_writer_to_go_on(
    path: str, served: bool, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    if not served:
        with penstock.connect(data) as connection:
            create_tables(connection)
        die_between(str(data), path)
        with penstock.connect(data) as connection:
            send_again(connection, path)
            check(connection, path)
        return
    with ServerProcess(data) as server, penstock.connect(server.url) as connection:
        create_tables(connection)
        die_between(server.url, path)
        send_again(connection, path)
        check(connection, path)


def die_between(target: str, path: str) -> None:
    source = str(Path(penstock.__path__[0]).parent)
    ended = subprocess.run(
        [sys.executable, __file__, target, path], env=os.environ | {"PYTHONPATH": source}, check=False, timeout=60
    )
    assert ended.returncode == -signal.SIGKILL


def client(target: str, path: str) -> None:
    connection = penstock.connect(target)
    node = connection._link.node
    first, second = batches(connection, path)
    writes = node.tables.write_stream()
    if writes is None:
        node.tables.write(first)
    else:
        writes.send(first)
        writes.send(second)
        writes.result()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    client(*sys.argv[1:])
