"""A node with a table for each feature, and the rows that features promise and find."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from tests.kit.memory_key_index import MemoryKeyIndex
from tests.kit.waiting import wait_until

import penstock
from penstock.engine.engine import Engine
from penstock.engine.home.storage import Storage
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.settings import Settings
from penstock.log.settings import LogSettings
from penstock.runtime.tasks import TaskGroup
from penstock.testing.faulty_disk import FaultyDisk
from penstock.testing.manual_clock import ManualClock
from penstock.testing.server import ServerProcess

SCHEMA = "id BIGINT, day STRING, v BIGINT, w BIGINT, x INT, PRIMARY KEY (id, day)"
DAYS = ("mon", "tue")
IDS = range(40)
MONDAY = {"day": "mon"}
PARTITION_MS = 20_000
KEY = {"id": 3, "day": "tue"}

Row = tuple[Any, ...]
Rows = list[Row]
# Begins a feature on a table; returns what it promises, and how it is brought to its end.
Feature = Callable[["World", penstock.Table], tuple[Rows, Callable[["World"], Rows]]]
Event = Callable[["World"], None]


class World:
    """A node, embedded or served, with a table for each feature."""

    properties: ClassVar[dict[str, str]] = {}

    def __init__(self, directory: Path, server: ServerProcess | None, *, other: Path) -> None:
        self.directory = directory
        self._other = other
        self.names: list[str] = []
        self.server = server
        self.served = server is not None
        self.conn = self.connect()

    def connect(self) -> penstock.Connection:
        return penstock.connect(self.directory if self.server is None else self.server.url)

    def create(self, name: str, *, v: int) -> penstock.Table:
        """Create a feature's table, all its rows with one value."""
        if name not in self.names:
            self.names.append(name)
        self.conn.create_database("shop", if_not_exists=True)
        table = self.conn.create_table(
            f"shop.{name}", SCHEMA, buckets=2, partitioned_by=["day"], properties=self.properties
        )
        table.upsert(whole(v))
        return table

    def table(self, name: str) -> penstock.Table:
        return self.conn.table(f"shop.{name}")

    def restart(self) -> None:
        """End the node and start it again; a served client keeps its connection."""
        if self.server is None:
            self.conn.close()
            self.conn = self.connect()
        else:
            self.server.restart()

    def move_to_another_database(self) -> None:
        """Go on with a node that has tables of the same names, and so of the same ids, with other rows."""
        self._move_to(self._other)
        for name in self.names:
            self.create(name, v=500)

    def move_to_a_restored_backup(self) -> None:
        """Go on with a node over a copy, in another directory."""
        self.conn.backup(self.scratch("moved-backup"))
        penstock.restore(self.scratch("moved-backup"), self._other)
        self._move_to(self._other)

    def _move_to(self, directory: Path) -> None:
        self.conn.close()
        if self.server is not None:
            self.server.stop()
            self.server = None
        self.directory = directory
        self.conn = self.connect()

    def scratch(self, name: str) -> Path:
        """Return a place for files that are not the node's."""
        return self._other.parent / name

    def moment(self) -> datetime:
        """Return a moment when it is over: what is written from now on is later."""
        moment = datetime.now(UTC)
        wait_until(lambda: datetime.now(UTC) - moment > timedelta(milliseconds=2))
        return moment

    def pass_time(self, ms: int) -> None:
        """Let time pass, where that can be done."""
        raise AssertionError("this node's clock is the machine's")

    def close(self) -> None:
        self.conn.close()


class AgingWorld(World):
    """A node in memory whose clock the test moves, with partitions that do not live long."""

    properties: ClassVar[dict[str, str]] = {"partition.retention": f"{PARTITION_MS}ms"}

    def __init__(self) -> None:
        self.served = False
        self.names = []
        self._clock = ManualClock()
        self._tasks = TaskGroup(self._clock, manual=True)
        settings = Settings()
        storage = Storage(FaultyDisk(), MemoryKeyIndex(), settings, LogSettings(block_rows=64))
        self.conn = penstock.Connection(
            Engine(
                storage=storage,
                metadata=MemoryMetadataStore(),
                settings=settings,
                clock=self._clock,
                tasks=self._tasks,
            ),
            "memory",
        )

    def moment(self) -> datetime:
        moment = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)
        self._clock.advance(1)
        return moment

    def pass_time(self, ms: int) -> None:
        self._clock.advance(ms)
        self._tasks.run_due()


def values(v: int) -> list[dict[str, Any]]:
    return [{"id": number, "day": day, "v": v} for day in DAYS for number in IDS]


def whole(v: int, ids: Iterable[int] = IDS) -> list[dict[str, Any]]:
    return [{"id": number, "day": day, "v": v, "w": None, "x": number} for day in DAYS for number in ids]


def name_of(table: penstock.Table) -> str:
    return table.path.removeprefix("shop.")


def at(v: int) -> Rows:
    return sorted((row["id"], row["day"], row["v"]) for row in whole(v))


def rows(batches: Iterable[pa.RecordBatch]) -> Rows:
    return sorted((r["id"], r["day"], value(r)) for batch in batches for r in batch.to_pylist() if r["id"] in IDS)


def value(row: dict[str, Any]) -> Any:
    """Return the value of a row by the name that its column has now."""
    return row["amount"] if "amount" in row else row["v"]


def changes(batches: Iterable[pa.RecordBatch]) -> Rows:
    read = (r for batch in batches for r in batch.to_pylist())
    return sorted((r["id"], r["day"], value(r), r["_change_type"]) for r in read if r["id"] in IDS)


def inserted() -> Rows:
    return [(*row, "+I") for row in at(1)]


def updated() -> Rows:
    return sorted([(*row, "-U") for row in at(1)] + [(*row, "+U") for row in at(2)])


def only(promised: Rows, found: Rows) -> Rows:
    """Return what was found of that which was promised: a reader of changes may see later ones, too."""
    wanted = set(promised)
    return sorted(row for row in found if row in wanted)
