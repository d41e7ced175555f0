"""Every way to read or write a table beside everything that may happen to it: all that was asked for, or an error.

`EXPECTED` lists features against events. For each event a node is set up with one table for each feature; the
feature begins, the event happens to every table, the feature ends. It has given exactly the rows that it
promised (`exact`), or it has refused with an error of ours (`refused`). To give less in silence is neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from tests.kit.memory_key_index import MemoryKeyIndex

import penstock
from penstock.engine.engine import Engine
from penstock.engine.home.storage import Storage
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.settings import Settings
from penstock.errors import InternalError, PenstockError
from penstock.log.settings import LogSettings
from penstock.runtime.tasks import TaskGroup
from penstock.testing.faulty_disk import FaultyDisk
from penstock.testing.manual_clock import ManualClock
from penstock.testing.server import ServerProcess

SCHEMA = "id BIGINT, day STRING, v BIGINT, w BIGINT, PRIMARY KEY (id, day)"
DAYS = ("mon", "tue")
IDS = range(40)
MONDAY = {"day": "mon"}
PARTITION_MS = 20_000
EXACT, REFUSED = "exact", "refused"
# Not what was promised, but what the table holds now, and the caller asked for that: see each place.
PRESENT = "present"
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
        self._directory = directory
        self._other = other
        self.server = server
        self.served = server is not None
        self.conn = self.connect()

    def connect(self) -> penstock.Connection:
        return penstock.connect(self._directory if self.server is None else self.server.url)

    def create(self, name: str, *, v: int) -> penstock.Table:
        """Create a feature's table, all its rows with one value."""
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
        self.conn.close()
        if self.server is not None:
            self.server.stop()
            self.server = None
        self._directory = self._other
        self.conn = self.connect()
        for name in FEATURES:
            self.create(name, v=500)

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

    def pass_time(self, ms: int) -> None:
        self._clock.advance(ms)
        self._tasks.run_due()


def values(v: int) -> list[dict[str, Any]]:
    return [{"id": number, "day": day, "v": v} for day in DAYS for number in IDS]


def whole(v: int, ids: Iterable[int] = IDS) -> list[dict[str, Any]]:
    return [{"id": number, "day": day, "v": v, "w": None} for day in DAYS for number in ids]


def name_of(table: penstock.Table) -> str:
    return table.path.removeprefix("shop.")


def at(v: int) -> Rows:
    return sorted((row["id"], row["day"], row["v"]) for row in whole(v))


def rows(batches: Iterable[pa.RecordBatch]) -> Rows:
    return sorted((r["id"], r["day"], r["v"]) for batch in batches for r in batch.to_pylist() if r["id"] in IDS)


def changes(batches: Iterable[pa.RecordBatch]) -> Rows:
    read = (r for batch in batches for r in batch.to_pylist())
    return sorted((r["id"], r["day"], r["v"], r["_change_type"]) for r in read if r["id"] in IDS)


def inserted() -> Rows:
    return [(*row, "+I") for row in at(1)]


def updated() -> Rows:
    return sorted([(*row, "-U") for row in at(1)] + [(*row, "+U") for row in at(2)])


def open_scan(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    batches = iter(table.scan())
    first = next(batches)
    return at(1), lambda _: rows([first, *batches])


def scan_again(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    scan = table.scan()
    assert rows(scan.to_arrow().to_batches()) == at(1)
    return at(1), lambda _: rows(scan.to_arrow().to_batches())


def scan_as_of(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    cut, name = table.cut(), name_of(table)
    table.upsert(values(2), columns=["v"])
    return at(1), lambda world: rows(world.table(name).scan(as_of=cut))


def resume_token(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    with table.scan() as scan:
        first = next(iter(scan))
        token = scan.resume_token
    return at(1), lambda world: rows([first, *world.conn.resume_scan(token)])


def page_token(world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    bucket = penstock.TableBucket(table.path, "day=mon", 0)
    whole_bucket = rows(table.scan(buckets=[bucket]))
    scanner = world.conn.scanner(table, bucket, page_bytes=200)
    page = scanner.open()
    scanner.close()
    name = table.path

    def finish(world: World) -> Rows:
        scanner = world.conn.scanner(name, bucket, page_bytes=1 << 20)
        rest = scanner.open(page.resume_token)
        assert not rest.has_more
        return rows([page.batch, rest.batch])

    return whole_bucket, finish


def open_changes(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    stream = table.changes(follow=True, timeout="300ms")
    first = next(stream)
    return inserted(), lambda _: only(inserted(), changes([first, *stream]))


def stored_position(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    with table.changes() as stream:
        first = next(stream)
        position = stream.position
    name = name_of(table)
    return inserted(), lambda world: only(inserted(), changes([first, *world.table(name).changes(start=position)]))


def position_at_the_end(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    with table.changes() as stream:
        read = changes(stream)
        position = stream.position
    name = name_of(table)
    return inserted(), lambda world: only(inserted(), read + changes(world.table(name).changes(start=position)))


def snapshot_then_changes(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    stream = table.snapshot_and_follow(timeout="300ms")
    first = next(stream)
    return inserted(), lambda _: only(inserted(), changes([first, *stream]))


def changes_from_a_cut(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    cut = table.cut()
    table.upsert(values(2), columns=["v"])
    name = name_of(table)
    return updated(), lambda world: only(updated(), changes(world.table(name).changes(start=cut)))


def leased_snapshot(world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    name = name_of(table)
    world.conn.acquire_lease(f"lease-{name}", table.latest_snapshots, duration="1h")
    table.upsert(values(2), columns=["v"])

    def finish(world: World) -> Rows:
        lease = world.conn.lease(f"lease-{name}")
        return rows(lease.table(f"shop.{name}").scan(source="snapshot"))

    return at(1), finish


def leased_cut(world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    name = name_of(table)
    cut = table.cut()
    world.conn.acquire_lease(f"cut-{name}", cut, duration="1h")
    table.upsert(values(2), columns=["v"])

    def finish(world: World) -> Rows:
        lease = world.conn.lease(f"cut-{name}")
        return changes(lease.table(f"shop.{name}").changes())

    return inserted(), finish


def lookup(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    name = name_of(table)

    def finish(world: World) -> Rows:
        found = world.table(name).lookup([KEY]).to_pylist()
        return [(row["id"], row["day"], row["v"]) for row in found]

    return [(KEY["id"], KEY["day"], 1)], finish


def handle(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    return [(KEY["id"], KEY["day"], 1)], lambda _: [
        (row["id"], row["day"], row["v"]) for row in table.lookup([KEY]).to_pylist()
    ]


def open_writer(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    writer = table.writer()
    name = name_of(table)

    def finish(world: World) -> Rows:
        with writer:
            writer.upsert(values(3), columns=["v"])
        return rows(world.table(name).scan())

    return at(3), finish


def epoch_of(table: penstock.Table) -> penstock.Owner:
    """Return an owner in whose open epoch every row was written."""
    owner = table.acquire_owner("job", columns=["v"], ttl="10min")
    owner.begin(epoch=1)
    table.upsert(values(4), columns=["v"], owner=owner)
    return owner


def open_epoch(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    owner, name = epoch_of(table), name_of(table)

    def finish(world: World) -> Rows:
        owner.commit(epoch=1)
        return rows(world.table(name).scan())

    return at(4), finish


def undone_epoch(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    owner, name = epoch_of(table), name_of(table)

    def finish(world: World) -> Rows:
        owner.undo()
        return rows(world.table(name).scan())

    return at(1), finish


def staged_rows(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    owner = table.acquire_owner("job", columns=["v"], ttl="10min")
    owner.begin(epoch=1)
    attempt = "6d6dbb6b-3d3c-44a5-91b7-9d4f9a8f1d11"
    table.stage(values(5), columns=["v"], owner=owner.token(1), attempt=attempt)
    name = name_of(table)

    def finish(world: World) -> Rows:
        owner.commit(epoch=1, attempts={attempt: 2 * len(IDS)})
        return rows(world.table(name).scan())

    return at(5), finish


def only(promised: Rows, found: Rows) -> Rows:
    """Return what was found of that which was promised: a reader of changes may see later ones, too."""
    wanted = set(promised)
    return sorted(row for row in found if row in wanted)


FEATURES: dict[str, Feature] = {
    "open_scan": open_scan,
    "scan_again": scan_again,
    "scan_as_of": scan_as_of,
    "resume_token": resume_token,
    "page_token": page_token,
    "open_changes": open_changes,
    "stored_position": stored_position,
    "position_at_the_end": position_at_the_end,
    "snapshot_then_changes": snapshot_then_changes,
    "changes_from_a_cut": changes_from_a_cut,
    "leased_snapshot": leased_snapshot,
    "leased_cut": leased_cut,
    "lookup": lookup,
    "handle": handle,
    "open_writer": open_writer,
    "open_epoch": open_epoch,
    "undone_epoch": undone_epoch,
    "staged_rows": staged_rows,
}


def nothing(_world: World) -> None:
    """Show that every feature works at all."""


def partition_is_dropped(world: World) -> None:
    for name in FEATURES:
        world.table(name).drop_partition(MONDAY)


def partition_is_created_again(world: World) -> None:
    for name in FEATURES:
        world.table(name).drop_partition(MONDAY)
        world.table(name).upsert([{"id": 0, "day": "mon", "v": 900, "w": None}])


def table_is_dropped(world: World) -> None:
    for name in FEATURES:
        world.conn.drop_table(f"shop.{name}")


def table_is_created_again(world: World) -> None:
    table_is_dropped(world)
    for name in FEATURES:
        world.create(name, v=500)


def node_restarts(world: World) -> None:
    world.restart()


def other_database(world: World) -> None:
    world.move_to_another_database()


def leases_end(world: World) -> None:
    for lease in world.conn.list_leases():
        lease.drop()


def others_are_undone(world: World) -> None:
    for name in FEATURES:
        world.conn.drop_owner("other", f"shop.{name}", undo=True)


def partition_expires(world: World) -> None:
    world.pass_time(PARTITION_MS)
    assert not any(world.table(name).list_partitions() for name in FEATURES)


EVENTS: dict[str, Event] = {
    event.__name__: event
    for event in (
        nothing,
        partition_is_dropped,
        partition_is_created_again,
        table_is_dropped,
        table_is_created_again,
        node_restarts,
        other_database,
        leases_end,
        others_are_undone,
    )
}


# What is not named here is exact. A handle of an embedded node ends with its connection.
HANDLES = ("open_scan", "scan_again", "open_changes", "snapshot_then_changes", "handle", "open_writer")
OWNERS = ("open_epoch", "undone_epoch", "staged_rows")
# What names a place in the table; that the lease of another keeps it does not count.
PLACES = ("scan_as_of", "resume_token", "page_token", "stored_position", "changes_from_a_cut")
EXPECTED: dict[str, dict[str, str]] = {
    "nothing": {},
    # Rows that an owner wrote into a partition go with it; rows that were only staged are missed at the commit.
    "partition_is_dropped": dict.fromkeys(PLACES, REFUSED)
    | {"open_epoch": PRESENT, "undone_epoch": PRESENT, "staged_rows": REFUSED},
    "partition_is_created_again": dict.fromkeys(PLACES, REFUSED)
    | {"open_epoch": PRESENT, "undone_epoch": PRESENT, "staged_rows": REFUSED},
    "partition_expires": dict.fromkeys(PLACES, REFUSED)
    | {"open_epoch": PRESENT, "undone_epoch": PRESENT, "staged_rows": REFUSED, "lookup": PRESENT, "handle": PRESENT},
    # Only a lease reads on.
    "table_is_dropped": dict.fromkeys(FEATURES, REFUSED)
    | {"open_scan": EXACT, "scan_again": EXACT, "leased_snapshot": EXACT, "leased_cut": EXACT},
    # A lookup by the table's name asks the table that has the name now.
    "table_is_created_again": dict.fromkeys(FEATURES, REFUSED)
    | {"open_scan": EXACT, "scan_again": EXACT, "leased_snapshot": EXACT, "leased_cut": EXACT, "lookup": PRESENT},
    "node_restarts": {},
    "other_database": dict.fromkeys(FEATURES, REFUSED) | {"lookup": PRESENT},
    "leases_end": {"leased_snapshot": REFUSED, "leased_cut": REFUSED},
    "others_are_undone": {},
    # An iterator is read once; the scan it is of is read again (`scan_again`).
    "used_again": {"open_scan": PRESENT, "open_changes": PRESENT, "snapshot_then_changes": PRESENT}
    | {"open_writer": REFUSED},
}


def expected(event: str, world: World) -> dict[str, str]:
    """Return how each feature ends at an event."""
    found = dict.fromkeys(FEATURES, EXACT) | EXPECTED[event]
    if event == "node_restarts" and not world.served:
        found |= dict.fromkeys((*HANDLES, *OWNERS), REFUSED)
    if event == "other_database" and world.served:
        found["open_scan"] = EXACT  # the first pages of all buckets came in one call
    return found


def begin_all(world: World) -> dict[str, tuple[Rows, Callable[[World], Rows]]]:
    """Return what each feature promises, and how it is brought to its end, each begun on a table of its own."""
    begun = {}
    for name, begin in FEATURES.items():
        table = world.create(name, v=1)
        # Somebody else is at work: an epoch is open, and a lease keeps the table.
        other = table.acquire_owner("other", columns=["w"], ttl="10min")
        other.begin(epoch=1)
        table.upsert([{"id": 1_000, "day": "tue", "w": 1}], columns=["w"], owner=other)
        world.conn.acquire_lease(f"other-{name}", table.cut(), duration="1h")
        begun[name] = begin(world, table)
    return begun


def outcome(world: World, promised: Rows, finish: Callable[[World], Rows]) -> str:
    try:
        found = finish(world)
    except PenstockError as error:
        return f"bug: {error}" if isinstance(error, InternalError) else REFUSED
    return EXACT if found == promised else PRESENT


@pytest.fixture(params=["embedded", "served"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(tmp_path / "data")) if request.param == "served" else None
        yield stack.enter_context(closing(World(tmp_path / "data", server, other=tmp_path / "other")))


@pytest.mark.parametrize("event", EVENTS)
def test_feature_gives_all_it_promised_or_refuses(world: World, event: str) -> None:
    begun = begin_all(world)

    EVENTS[event](world)

    found = {name: outcome(world, promised, finish) for name, (promised, finish) in begun.items()}
    assert found == expected(event, world)


def test_feature_gives_all_it_promised_or_refuses_when_partitions_expire() -> None:
    world = AgingWorld()
    begun = begin_all(world)

    partition_expires(world)

    found = {name: outcome(world, promised, finish) for name, (promised, finish) in begun.items()}
    assert found == expected("partition_expires", world)


def test_feature_gives_all_it_promised_or_refuses_when_used_again(world: World) -> None:
    begun = begin_all(world)
    for _, finish in begun.values():
        finish(world)

    found = {name: outcome(world, promised, finish) for name, (promised, finish) in begun.items()}
    assert found == expected("used_again", world)
