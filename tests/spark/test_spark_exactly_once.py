"""Exactly once under chaos: tasks die half-way, drivers are killed everywhere, the server too; totals are exact.

Five tables take the same kind of treatment: sums and the newest row of each key (visible at once), totals of
a query with state, a log (visible at commit), and a copy that follows a changelog.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.spark_cluster import SparkCluster
from tests.kit.waiting import go_on_for, wait_until

import penstock
from penstock.testing.server import ServerProcess

DRIVER = Path(__file__).with_name("chaos_driver.py")
ZOMBIE = Path(__file__).with_name("zombie.py")
SOURCE = Path(__file__).parents[2] / "src"
POINTS = ("write", "in commit", "after commit", "before commit")
TABLES = ("sums", "newest", "totals", "log", "copy")
KEYS = 50


@dataclass
class Chaos:
    """The files that the streams read, and what the tables must hold after all of them."""

    home: Path
    seed: int
    rows_per_file: int
    death: float
    masters: tuple[str, ...] = ("local[2,8]",)
    zombies: float = 0.3
    speculation: bool = False
    drives: int = 0
    files: int = 0
    offset: int = 0
    total: dict[int, tuple[int, int]] = field(default_factory=dict)
    newest: dict[int, int] = field(default_factory=dict)
    by_others: dict[int, tuple[int, int]] = field(default_factory=dict)
    copy: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        for name in ("rows", "changes", "deaths", "zombies", "held", "slow", "twins"):
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

    def start(self, server: ServerProcess, **told: Any) -> subprocess.Popen[bytes]:
        """Start a driver, on the next master; return it when its streams are started."""
        config = {
            "home": str(self.home),
            "url": server.url,
            "seed": self.seed,
            "death": self.death,
            # A task has some calls to die between, and a large one not thousands.
            "call_rows": max(50, self.rows_per_file // 100),
            "zombies": self.zombies,
            "zombie": str(ZOMBIE),
            "speculation": self.speculation,
            "master": self.masters[self.drives % len(self.masters)],
            "kill": None,
            "hold": None,
        } | told
        self.drives += 1
        path = os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH"))))
        with (self.home / "driver.log").open("ab") as words:
            child = subprocess.Popen(
                [sys.executable, str(DRIVER), json.dumps(config)],
                stdout=subprocess.PIPE,
                stderr=words,
                env=os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            )
        assert child.stdout is not None
        child.stdout.readline()
        return child

    def drive(self, server: ServerProcess, kill: dict[str, Any] | None, *, restart: bool = False) -> None:
        """Run a driver to its end, which is to be killed or not."""
        with self.start(server, kill=kill) as child:
            if restart:
                go_on_for(2)
                server.restart()
            self.end(child, -signal.SIGKILL if kill else 0)

    def end(self, child: subprocess.Popen[bytes], code: int) -> None:
        """Wait for a driver's end, and see that it is the one expected."""
        assert child.wait(600) == code, (self.home / "driver.log").read_text()[-3000:]

    def marks(self, kind: str) -> list[Path]:
        return list((self.home / kind).iterdir())

    def await_zombies(self) -> list[str]:
        """Return what came of the late tasks, when all of them have tried."""
        homes = self.marks("zombies")
        wait_until(lambda: all((home / "outcome").exists() for home in homes), 120)
        return [(home / "outcome").read_text() for home in homes]

    def check(self, connection: penstock.Connection) -> None:
        tables = {name: connection.table(f"chaos.{name}") for name in TABLES}
        rows = {name: table.scan().to_arrow().to_pylist() for name, table in tables.items()}
        assert {row["k"]: (row["v"], row["n"]) for row in rows["sums"]} == self.total | self.by_others
        assert {row["k"]: (row["v"], row["n"]) for row in rows["totals"]} == self.total
        assert {row["k"]: row["seq"] for row in rows["newest"]} == self.newest
        assert sorted(row["seq"] for row in rows["log"]) == list(range(self.files * self.rows_per_file))
        assert {row["k"]: row["v"] for row in rows["copy"]} == self.copy
        for name in ("sums", "newest", "totals", "copy"):
            assert folded(tables[name]) == {row["k"]: row for row in rows[name]}, name
        owners = connection.list_owners()
        assert {(owner.open_epoch, owner.rows_pending) for owner in owners} == {(None, 0)}
        assert {owner.table: owner.committed_epoch for owner in owners} == {
            f"chaos.{name}": self._batches_committed(name) for name in TABLES
        }

    def _batches_committed(self, name: str) -> int:
        """Return the last micro-batch of a query; after a kill Spark may read two files in one."""
        return max(int(commit.name) for commit in (self.home / "checkpoints" / name / "commits").glob("[0-9]*"))


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
    connection.create_table("chaos.totals", "k BIGINT, v BIGINT, n BIGINT, PRIMARY KEY (k)", buckets=2)
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
            chaos.drive(server, kill, restart=number % 3 == 2)
        chaos.add_files(1)
        chaos.drive(server, None, restart=True)
        # Whatever is left of dead tasks and drivers writes nothing more, now that all is committed.
        assert set(chaos.await_zombies()) <= {"written", "FencedError", "ConflictError"}
        with penstock.connect(server.url) as connection:
            chaos.check(connection)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    """Return a cluster of two workers."""
    with SparkCluster(tmp_path / "cluster") as running:
        yield running


@pytest.mark.timeout(1200)
def test_killed_drivers_dying_tasks_and_a_killed_server_leave_exact_tables(
    tmp_path: Path, cluster: SparkCluster
) -> None:
    chaos = Chaos(tmp_path, seed=20261116, rows_per_file=400, death=0.3, masters=(cluster.url, "local[2,8]"))

    run(chaos, kills=2)

    assert chaos.marks("deaths")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_late_twins_and_zombies_on_two_workers_that_mix_rows_leave_exact_tables(
    tmp_path: Path, cluster: SparkCluster
) -> None:
    chaos = Chaos(
        tmp_path, seed=20261117, rows_per_file=2_000, death=0.2, zombies=1.0, masters=(cluster.url,), speculation=True
    )

    run(chaos, kills=3)

    assert chaos.marks("twins"), "Spark started a second copy of a slow task"
    assert chaos.marks("zombies")


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_three_hundred_thousand_rows_survive_ten_kills_and_a_hundred_dead_tasks(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, seed=random.randrange(1 << 30), rows_per_file=15_000, death=0.7)

    run(chaos, kills=10)

    assert len(chaos.marks("deaths")) >= 100
    assert chaos.files * chaos.rows_per_file >= 300_000


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("taken", [False, True], ids=["nobody takes over", "another takes over"])
def test_a_job_that_stands_still_longer_than_its_owner_lasts_counts_once(tmp_path: Path, taken: bool) -> None:
    chaos = Chaos(tmp_path, seed=20261118, rows_per_file=400, death=0.0)
    chaos.add_files(2)
    with (
        ServerProcess(chaos.home / "data", settings={"column-lock.ttl": "2s"}) as server,
        penstock.connect(server.url) as connection,
    ):
        create_tables(connection)
        with chaos.start(server, hold={"table": "sums", "batch": 0}) as child:
            wait_until(lambda: chaos.marks("held") or child.poll() is not None)
            assert child.poll() is None, (chaos.home / "driver.log").read_text()[-3000:]
            everyone = [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]
            for process in everyone:
                process.suspend()
            wait_until(lambda: not any(o.held for o in connection.list_owners() if o.table == "chaos.sums"))
            if taken:
                with connection.table("chaos.sums").acquire_owner("taker") as taker:
                    connection.table("chaos.sums").upsert({"k": [-1], "v": [5], "n": [1]}, owner=taker)
                connection.drop_owner("taker", "chaos.sums")
                chaos.by_others[-1] = (5, 1)
            (chaos.home / "held" / "go").touch()
            for process in everyone:
                process.resume()
            chaos.end(child, 1 if taken else 0)
        if taken:
            chaos.drive(server, None)
        chaos.check(connection)
