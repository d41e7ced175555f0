"""Kill jobs and their server at many moments: every epoch counts once, and a reader of the changes sees no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from tests.process.owner_child import EPOCHS, FENCED, rows_of

import penstock
from penstock.testing.server import ServerProcess

CHILD = Path(__file__).with_name("owner_child.py")
DDL = "p BIGINT, k BIGINT, a BIGINT SUM, b BIGINT MAX, PRIMARY KEY (p, k)"
COLUMNS = ("a", "b")
Key = tuple[int, int]
Rows = dict[Key, dict[str, Any]]


def start(url: str, column: str, calls: int) -> subprocess.Popen[bytes]:
    source = str(Path(penstock.__path__[0]).parent)
    command = [sys.executable, str(CHILD), url, column, str(calls)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": source})


def expected() -> Rows:
    rows: Rows = {}
    for column in COLUMNS:
        for epoch in range(EPOCHS):
            for row in rows_of(column, epoch):
                image = rows.setdefault((row["p"], row["k"]), dict.fromkeys(COLUMNS))
                before, value = image[column], row[column]
                if before is not None:
                    value = before + value if column == "a" else max(before, value)
                image[column] = value
    return rows


def followed(table: penstock.Table) -> Rows:
    """Fold all changes from the first, and check that each meets the row that it says it meets."""
    rows: Rows = {}
    for change in pa.Table.from_batches(list(table.changes())).to_pylist():
        key, image = (change["p"], change["k"]), {column: change[column] for column in COLUMNS}
        match change["_change_type"]:
            case "+I":
                assert key not in rows
                rows[key] = image
            case "-U":
                assert rows[key] == image
            case "+U":
                assert key in rows
                rows[key] = image
            case "-D":
                assert rows.pop(key) == image
    return rows


def test_epochs_count_once_while_jobs_and_server_are_killed(tmp_path: Path) -> None:
    seed = 5
    print(f"seed={seed}")
    random = Random(seed)
    with ServerProcess(tmp_path / "data") as server, penstock.connect(server.url) as connection:
        options: dict[str, Any] = {"merge_engine": "aggregate", "partitioned_by": ["p"], "buckets": 2}
        table = connection.create_table("t", DDL, **options)
        zombie = start(server.url, "a", 1_000)
        zombie.send_signal(signal.SIGSTOP)
        left = {column: random.sample(range(2, 20), 2) for column in COLUMNS}
        while any(left.values()):
            running = [start(server.url, column, calls.pop()) for column, calls in left.items() if calls]
            if random.random() < 0.5:
                running[0].wait()
                server.restart()
            assert {job.wait() for job in running} <= {0, -signal.SIGKILL}
        zombie.send_signal(signal.SIGCONT)
        last = [start(server.url, column, 1_000) for column in COLUMNS]
        while FENCED in [job.wait() for job in last]:
            last = [start(server.url, column, 1_000) for column in COLUMNS]

        assert zombie.wait() in {0, FENCED}
        found = {(row.pop("p"), row.pop("k")): row for row in table.scan().to_arrow().to_pylist()}
        assert found == expected()
        assert followed(table) == found
        assert [(info.open_epoch, info.rows_pending) for info in connection.list_owners()] == [(None, 0)] * 2


def test_epochs_count_once_while_embedding_jobs_are_killed(tmp_path: Path) -> None:
    seed = 6
    print(f"seed={seed}")
    random = Random(seed)
    data = tmp_path / "data"
    options: dict[str, Any] = {"merge_engine": "aggregate", "partitioned_by": ["p"], "buckets": 2}
    with penstock.connect(data) as connection:
        connection.create_table("t", DDL, **options)
    for calls in [*random.sample(range(2, 20), 3), 1_000]:
        for column in COLUMNS:
            assert start(str(data), column, calls).wait() in {0, -signal.SIGKILL}

    with penstock.connect(data) as connection:
        table = connection.table("t")
        found = {(row.pop("p"), row.pop("k")): row for row in table.scan().to_arrow().to_pylist()}
        assert found == expected()
        assert followed(table) == found
