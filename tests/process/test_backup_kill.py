"""Server and client of a backup are killed anywhere: the one before stays whole, and the next goes on."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import penstock
from penstock.testing.server import ServerProcess

ROWS = 150_000
DDL = "id BIGINT, v BIGINT, note STRING, PRIMARY KEY (id)"


def write(connection: penstock.Connection, value: int) -> None:
    table = connection.table("t")
    for start in range(0, ROWS, 50_000):
        ids = range(start, start + 50_000)
        table.upsert(
            {"id": list(ids), "v": [value] * 50_000, "note": [f"a text of some length {value} {n}" for n in ids]}
        )


def values(backup: Path, target: Path) -> set[int]:
    """Return the values in a backup; each is there for all rows of some calls."""
    penstock.restore(backup, target)
    with penstock.connect(target) as again:
        found = again.table("t").scan(columns=["v"]).to_arrow()["v"].to_pylist()
    assert len(found) == ROWS
    return set(found)


def test_the_client_is_killed_in_the_middle(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed={seed}")
    chosen = random.Random(seed)
    child = Path(__file__).with_name("backup_child.py")
    with ServerProcess(tmp_path / "data") as server, penstock.connect(server.url) as connection:
        connection.create_table("t", DDL, buckets=3)
        write(connection, 0)
        connection.backup(tmp_path / "copy")
        for turn in range(1, 5):
            write(connection, turn)
            command = [sys.executable, str(child), server.url, str(tmp_path / "copy")]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for number, line in enumerate(process.stdout):
                    if line.startswith("made") or number >= chosen.randrange(1, 8):
                        break
                process.kill()
            found = values(tmp_path / "copy", tmp_path / f"again-{turn}")
            assert found in ({turn - 1}, {turn}), (turn, found)
            connection.backup(tmp_path / "copy")
            assert values(tmp_path / "copy", tmp_path / f"whole-{turn}") == {turn}


def test_the_server_is_killed_in_the_middle(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, penstock.connect(server.url) as connection:
        connection.create_table("t", DDL, buckets=3)
        write(connection, 0)
        connection.backup(tmp_path / "copy")
        write(connection, 1)
        killed: list[threading.Thread] = []

        def kill(done: int, total: int) -> None:
            if done > total // 2 and not killed:
                server.kill()
                killed.append(threading.Thread(target=server.start))
                killed[0].start()

        made = connection.backup(tmp_path / "copy", progress=kill)
        killed[0].join()

        assert made.bytes_copied < made.bytes, "what was copied before the kill is not copied again"
        assert values(tmp_path / "copy", tmp_path / "again") == {1}
        assert not any((tmp_path / "data" / "backup").glob("*"))
