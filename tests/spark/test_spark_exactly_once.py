"""Exactly once under chaos: tasks die half-way, drivers are killed everywhere, the server too; totals are exact.

Four tables take the same kind of treatment: sums and the newest row of each key (visible at once), a log
(visible at commit), and a copy that follows a changelog.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.testing.server import ServerProcess

DRIVER = Path(__file__).with_name("chaos_driver.py")
SOURCE = Path(__file__).parents[2] / "src"
POINTS = ("write", "in commit", "after commit", "before commit")
TABLES = ("sums", "newest", "log", "copy")
KEYS = 50


@dataclass
class Chaos:
    """The files that the streams read, and what the tables must hold after all of them."""

    home: Path
    seed: int
    rows_per_file: int
    death: float
    master: str = "local[2,4]"
    files: int = 0
    offset: int = 0
    total: dict[int, tuple[int, int]] = field(default_factory=dict)
    newest: dict[int, int] = field(default_factory=dict)
    copy: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        for name in ("rows", "changes", "deaths"):
            (self.home / name).mkdir()

    def add_files(self, count: int) -> None:
        for _ in range(count):
            self._add_rows()
            self._add_changes()
            self.files += 1

    def _add_rows(self) -> None:
        start = self.files * self.rows_per_file
        rows = [
            (self.chance.randrange(KEYS), self.chance.randrange(1000), start + n) for n in range(self.rows_per_file)
        ]
        for k, v, seq in rows:
            total, n = self.total.get(k, (0, 0))
            self.total[k] = (total + v, n + 1)
            self.newest[k] = seq
        self._store("rows", rows, ("k", "v", "seq"))

    def _add_changes(self) -> None:
        rows: list[tuple[int, int, str, int]] = []
        for _ in range(self.rows_per_file):
            k, v = self.chance.randrange(KEYS), self.chance.randrange(1000)
            if k not in self.copy:
                rows.append((k, v, "+I", self.offset))
            elif self.chance.random() < 0.3:
                rows.append((k, self.copy.pop(k), "-D", self.offset))
                self.offset += 1
                continue
            else:
                rows += [(k, self.copy[k], "-U", self.offset), (k, v, "+U", self.offset)]
            self.copy[k] = v
            self.offset += 1
        self.chance.shuffle(rows)
        self._store("changes", rows, ("k", "v", "_change_type", "_offset"))

    def _store(self, name: str, rows: list[Any], columns: tuple[str, ...]) -> None:
        data = pa.table(dict(zip(columns, zip(*rows, strict=True), strict=True)))
        pq.write_table(data, self.home / name / f"{self.files:05}.parquet", row_group_size=len(rows) // 2)

    def drive(self, server: ServerProcess, kill: dict[str, Any] | None, *, restart: bool = False) -> int:
        """Run a driver to its end; return its exit code."""
        config = {
            "home": str(self.home),
            "url": server.url,
            "seed": self.seed,
            "death": self.death,
            "kill": kill,
            "master": self.master,
        }
        path = os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH"))))
        with (self.home / "driver.log").open("ab") as words:
            child = subprocess.Popen(
                [sys.executable, str(DRIVER), json.dumps(config)],
                stdout=subprocess.PIPE,
                stderr=words,
                env=os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            )
        assert child.stdout is not None
        with child, child.stdout as said:
            said.readline()
            if restart:
                threading.Event().wait(2)
                server.restart()
            return child.wait(600)

    def check(self, connection: penstock.Connection) -> None:
        tables = {name: connection.table(f"chaos.{name}") for name in TABLES}
        rows = {name: table.scan().to_arrow().to_pylist() for name, table in tables.items()}
        assert {row["k"]: (row["v"], row["n"]) for row in rows["sums"]} == self.total
        assert {row["k"]: row["seq"] for row in rows["newest"]} == self.newest
        assert sorted(row["seq"] for row in rows["log"]) == list(range(self.files * self.rows_per_file))
        assert {row["k"]: row["v"] for row in rows["copy"]} == self.copy
        for name in ("sums", "newest", "copy"):
            assert folded(tables[name]) == {row["k"]: row for row in rows[name]}, name
        owners = connection.list_owners()
        assert {(owner.open_epoch, owner.rows_pending) for owner in owners} == {(None, 0)}
        assert {owner.committed_epoch for owner in owners} == {self.files - 1}


def folded(table: penstock.Table) -> dict[int, dict[str, Any]]:
    """Return the rows that the changelog leaves."""
    live: dict[int, dict[str, Any]] = {}
    names = table.schema.names
    for batch in table.changes():
        for row in batch.to_pylist():
            if row["_change_type"] in {"+I", "+U"}:
                live[row["k"]] = {name: row[name] for name in names}
            elif row["_change_type"] == "-D":
                del live[row["k"]]
    return live


def create_tables(connection: penstock.Connection) -> None:
    connection.create_database("chaos")
    connection.create_table("chaos.sums", "k BIGINT, v BIGINT SUM, n BIGINT COUNT, PRIMARY KEY (k)", buckets=3)
    connection.create_table("chaos.newest", "k BIGINT, v BIGINT, seq BIGINT, PRIMARY KEY (k)", buckets=2)
    connection.create_table("chaos.copy", "k BIGINT, v BIGINT, PRIMARY KEY (k)", buckets=2)
    connection.create_table("chaos.log", pa.schema([(name, pa.int64()) for name in ("k", "v", "seq")]), buckets=2)


def run(chaos: Chaos, kills: int) -> None:
    print(f"seed={chaos.seed}")
    with ServerProcess(chaos.home / "data") as server:
        with penstock.connect(server.url) as connection:
            create_tables(connection)
        for number in range(kills):
            chaos.add_files(2)
            kill = {
                "point": POINTS[number % len(POINTS)],
                "table": TABLES[number % len(TABLES)],
                # The newest micro-batches are those that no run before has seen.
                "batch": chaos.files - 1 - chaos.chance.randrange(2),
                "delay": 0.1 + 0.4 * chaos.chance.random(),
            }
            assert chaos.drive(server, kill, restart=number % 3 == 2) == -9, (chaos.home / "driver.log").read_text()[
                -2000:
            ]
        chaos.add_files(1)
        assert chaos.drive(server, None, restart=True) == 0, (chaos.home / "driver.log").read_text()[-2000:]
        with penstock.connect(server.url) as connection:
            chaos.check(connection)


def test_killed_drivers_dying_tasks_and_a_killed_server_leave_exact_tables(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, seed=20261116, rows_per_file=400, death=0.3)

    run(chaos, kills=3)

    assert list((tmp_path / "deaths").iterdir())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_cluster_of_two_workers_that_mixes_rows_leaves_exact_tables(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, seed=20261117, rows_per_file=2_000, death=0.2, master="local-cluster[2,1,1024]")

    run(chaos, kills=2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_three_hundred_thousand_rows_survive_twelve_kills_and_a_hundred_dead_tasks(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, seed=random.randrange(1 << 30), rows_per_file=12_000, death=0.35)

    run(chaos, kills=12)

    assert len(list((tmp_path / "deaths").iterdir())) >= 100
    assert chaos.files * chaos.rows_per_file >= 300_000
