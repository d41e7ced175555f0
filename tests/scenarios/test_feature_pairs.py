"""Every way to read or write a table beside everything that may happen to it: all that was asked for, or an error.

`EXPECTED` lists features against events. For each event a node is set up with one table for each feature; the
feature begins, the event happens to every table, the feature ends. It has given exactly the rows that it
promised (`exact`), or it has refused with an error of ours (`refused`). To give less in silence is neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from tests.kit.feature_world import MONDAY, PARTITION_MS, AgingWorld, Event, Feature, Rows, World, values
from tests.kit.read_features import FEATURES_ANYWHERE, FEATURES_OF_FILES
from tests.kit.table_features import TABLE_FEATURES

from penstock.errors import InternalError, LockedError, PenstockError
from penstock.testing.server import ServerProcess

EXACT, REFUSED = "exact", "refused"
# Not what was promised, but what the table holds now, and the caller asked for that: see each place.
PRESENT = "present"
IN_MEMORY = TABLE_FEATURES | FEATURES_ANYWHERE
FEATURES = IN_MEMORY | FEATURES_OF_FILES


def nothing(_world: World) -> None:
    """Show that every feature works at all."""


def partition_is_dropped(world: World) -> None:
    for name in world.names:
        world.table(name).drop_partition(MONDAY)


def partition_is_created_again(world: World) -> None:
    for name in world.names:
        world.table(name).drop_partition(MONDAY)
        world.table(name).upsert([{"id": 0, "day": "mon", "v": 900, "w": None, "x": 0}])


def table_is_dropped(world: World) -> None:
    for name in world.names:
        world.conn.drop_table(f"shop.{name}")


def table_is_created_again(world: World) -> None:
    table_is_dropped(world)
    for name in world.names:
        world.create(name, v=500)


def node_restarts(world: World) -> None:
    world.restart()


def other_database(world: World) -> None:
    world.move_to_another_database()


def leases_end(world: World) -> None:
    for lease in world.conn.list_leases():
        lease.drop()


def others_are_undone(world: World) -> None:
    for name in world.names:
        world.conn.drop_owner("other", f"shop.{name}", undo=True)


def restored(world: World) -> None:
    world.move_to_a_restored_backup()


def column_renamed(world: World) -> None:
    for name in world.names:
        world.table(name).rename_column("v", "amount")


def column_dropped(world: World) -> None:
    for name in world.names:
        world.table(name).drop_column("x")


def column_widened(world: World) -> None:
    for name in world.names:
        world.table(name).widen_column("x", pa.int64())


def column_added(world: World) -> None:
    for name in world.names:
        world.table(name).add_column("y", pa.string(), default="none")


def property_set(world: World) -> None:
    for name in world.names:
        world.table(name).set_properties({"log.retention": "1d"})


def truncated(world: World) -> None:
    others_are_undone(world)
    for name in world.names:
        # Where an owner holds columns, rows stay.
        with suppress(LockedError):
            world.table(name).truncate()


def partition_expires(world: World) -> None:
    world.pass_time(PARTITION_MS)
    assert not any(world.table(name).list_partitions() for name in world.names)


def rows_expire(world: World) -> None:
    for name in world.names:
        world.table(name).set_properties({"partition.retention": None, "row.ttl": "5s"})
    for _ in range(4):
        world.pass_time(30_000)


def log_is_compacted(world: World) -> None:
    """Move the base past every cut, where nothing holds it."""
    leases_end(world)
    for name in world.names:
        world.table(name).set_properties({"partition.retention": None, "log.retention": "1s"})
        with suppress(LockedError):
            world.table(name).upsert(values(2), columns=["v"])
    for _ in range(8):
        world.pass_time(700_000)
    bases = [at.base for at in world.table("count").offsets().values()]
    assert all(base & 0xFFFF for base in bases), bases


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
        restored,
        column_renamed,
        column_dropped,
        column_widened,
        column_added,
        property_set,
        truncated,
    )
}


AGING_EVENTS: dict[str, Event] = {event.__name__: event for event in (partition_expires, rows_expire, log_is_compacted)}


# What is not named here is exact. A handle of an embedded node ends with its connection.
HANDLES = ("open_scan", "scan_again", "open_changes", "snapshot_then_changes", "handle", "open_writer")
OWNERS = ("open_epoch", "undone_epoch", "staged_rows")
LEASED = ("leased_snapshot", "leased_cut")
# What names a cut, or a moment, of the table; that the lease of another keeps it does not count.
CUTS = ("past_lookup", "past_count", "past_first_rows", "later_reader")
MOMENTS = ("moment_scan", "moment_lookup")
FILTERED = ("filtered_changes", "filtered_snapshot")
PLACES = ("scan_as_of", "resume_token", "page_token", "stored_position", "changes_from_a_cut", *CUTS, *FILTERED)
LATEST = ("lookup", "count", "first_rows")
# A copy, and a reader that has the files open, are not touched by what happens to the table.
COPIES = dict.fromkeys(("backup", "held_reader"), EXACT)
# Rows that an owner wrote into a partition go with it; rows that were only staged are missed at the commit.
LOST_PARTITION = dict.fromkeys((*PLACES, *MOMENTS, "staged_rows"), REFUSED) | dict.fromkeys(
    ("open_epoch", "undone_epoch", "count", "first_rows"), PRESENT
)
DROPPED_TABLE = dict.fromkeys(FEATURES, REFUSED) | COPIES | dict.fromkeys(("open_scan", "scan_again", *LEASED), EXACT)
# What asks by name asks the table that has the name now: at a moment before its creation it had no rows, and an
# offset does not say of which table it is.
BY_NAME = dict.fromkeys((*LATEST, *MOMENTS), PRESENT) | {"compare_and_set": EXACT}
EXPECTED: dict[str, dict[str, str]] = {
    "nothing": {},
    "partition_is_dropped": LOST_PARTITION,
    "partition_is_created_again": LOST_PARTITION,
    "partition_expires": LOST_PARTITION | {"lookup": PRESENT, "handle": PRESENT, "compare_and_set": REFUSED},
    # Rows of an open epoch wait for its end, and undo is a write, too.
    "rows_expire": dict.fromkeys((*LATEST, "handle"), PRESENT) | {"compare_and_set": REFUSED},
    # Without locks others write what an owner holds, and his undo leaves it.
    "log_is_compacted": dict.fromkeys((*PLACES, *MOMENTS, *LEASED, "position_at_the_end", "compare_and_set"), REFUSED)
    | dict.fromkeys(("open_scan", "scan_again", "open_changes", "snapshot_then_changes"), REFUSED)
    | dict.fromkeys((*LATEST, "handle", "open_epoch", "undone_epoch"), PRESENT),
    "table_is_dropped": DROPPED_TABLE,
    "table_is_created_again": DROPPED_TABLE | BY_NAME | {"next_backup": EXACT},
    "node_restarts": {},
    "other_database": dict.fromkeys(FEATURES, REFUSED) | COPIES | BY_NAME,
    # A copy is a database of its own, which goes on where the other was; its backups need another directory.
    "restored": dict.fromkeys((*HANDLES, *OWNERS, *LEASED, "next_backup"), REFUSED),
    "leases_end": dict.fromkeys(LEASED, REFUSED),
    "others_are_undone": {},
    "column_renamed": {},
    # What is open, or goes on, has the columns of its start.
    "column_dropped": dict.fromkeys((*LEASED, "resume_token", "page_token", "filtered_snapshot"), REFUSED)
    | dict.fromkeys(("open_scan", "scan_again", "open_changes", "snapshot_then_changes"), REFUSED),
    "column_widened": {},
    "column_added": {},
    "property_set": {},
    # What an owner wrote was deleted by others, and stays so after his undo.
    "truncated": dict.fromkeys((*LATEST, "handle", "open_epoch", "undone_epoch"), PRESENT)
    | {"compare_and_set": REFUSED},
    # An iterator is read once; the scan it is of is read again (`scan_again`).
    "used_again": {"open_scan": PRESENT, "open_changes": PRESENT, "snapshot_then_changes": PRESENT}
    | dict.fromkeys(("open_writer", "held_reader", "compare_and_set"), REFUSED),
}


def features_of(world: World) -> dict[str, Feature]:
    """Return the features that a node can have."""
    return IN_MEMORY if isinstance(world, AgingWorld) else FEATURES


def expected(event: str, world: World) -> dict[str, str]:
    """Return how each feature ends at an event."""
    found = dict.fromkeys(FEATURES, EXACT) | EXPECTED[event]
    if event == "node_restarts" and not world.served:
        found |= dict.fromkeys((*HANDLES, *OWNERS), REFUSED)
    if event in ("other_database", "restored", "column_dropped") and world.served:
        found["open_scan"] = EXACT  # the first pages of all buckets came in one call
    return {name: found[name] for name in features_of(world)}


def begin_all(world: World) -> dict[str, tuple[Rows, Callable[[World], Rows]]]:
    """Return what each feature promises, and how it is brought to its end, each begun on a table of its own."""
    begun = {}
    for name, begin in features_of(world).items():
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


def outcomes(world: World, begun: dict[str, tuple[Rows, Callable[[World], Rows]]]) -> dict[str, str]:
    return {name: outcome(world, promised, finish) for name, (promised, finish) in begun.items()}


@pytest.fixture(params=["embedded", "served"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(tmp_path / "data")) if request.param == "served" else None
        yield stack.enter_context(closing(World(tmp_path / "data", server, other=tmp_path / "other")))


@pytest.mark.parametrize("event", EVENTS)
def test_feature_gives_all_it_promised_or_refuses(world: World, event: str) -> None:
    begun = begin_all(world)

    EVENTS[event](world)

    assert outcomes(world, begun) == expected(event, world)


@pytest.mark.parametrize("event", AGING_EVENTS)
def test_feature_gives_all_it_promised_or_refuses_when_time_passes(event: str) -> None:
    world = AgingWorld()
    begun = begin_all(world)

    AGING_EVENTS[event](world)

    assert outcomes(world, begun) == expected(event, world)


def test_feature_gives_all_it_promised_or_refuses_when_used_again(world: World) -> None:
    begun = begin_all(world)
    for _, finish in begun.values():
        finish(world)

    assert outcomes(world, begun) == expected("used_again", world)
