"""A server as a process: its ready line, its end, and what a crash leaves."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import penstock
from penstock.errors import InternalError
from penstock.testing.server import ServerProcess


def test_server_says_where_it_is_and_ends_with_code_zero_when_told_to(tmp_path: Path) -> None:
    process = ServerProcess(tmp_path / "data")
    process.start()
    with penstock.connect(process.url) as conn:
        conn.create_table("orders", "id BIGINT, note STRING, PRIMARY KEY (id)").upsert([{"id": 1, "note": "a"}])
        health = json.load(urllib.request.urlopen(f"{process.http_url}/health", timeout=10))

        code = process.stop()

    assert health == {"status": "ok"}
    assert code == 0, process.log


def test_acknowledged_rows_survive_kills_and_the_connection_goes_on(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as process, penstock.connect(process.url) as conn:
        table = conn.create_table("orders", "id BIGINT, note STRING, PRIMARY KEY (id)", buckets=2)
        for round_ in range(4):
            table.upsert([{"id": number, "note": f"round {round_}"} for number in range(round_ * 10, round_ * 10 + 10)])
            process.restart()

        rows = table.scan().to_arrow().to_pylist()

    assert sorted(row["id"] for row in rows) == list(range(40))


def test_server_that_nobody_would_be_asked_at_does_not_start(tmp_path: Path) -> None:
    process = ServerProcess(tmp_path / "data", arguments=("--host", "0.0.0.0"))

    with pytest.raises(InternalError, match="say insecure"):
        process.start()
    assert not (tmp_path / "data").exists()


def test_second_server_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data"):
        second = ServerProcess(tmp_path / "data")
        with pytest.raises(InternalError, match="pid"):
            second.start()


def test_remote_client_loads_neither_rocksdb_nor_the_server() -> None:
    program = (
        "import sys, penstock, penstock.client, penstock.client.remote.node\n"
        "conn = penstock.connect('penstock://127.0.0.1:1')\n"
        "conn.close()\n"
        "print([name for name in sys.modules if name.startswith(('rocksdict', 'penstock.server', 'penstock.engine'))])"
    )

    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout

    assert shown.strip() == "[]"
