"""Features that read the past, some of the rows, or a copy; and writes that depend on what was read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from tests.kit.feature_world import KEY, Feature, Rows, World, at, changes, name_of, only, rows, value, values

import penstock

Begun = tuple[Rows, Callable[[World], Rows]]


def keyed(found: dict[str, Any] | None) -> Rows:
    return [] if found is None else [(found["id"], found["day"], value(found))]


def is_one(table: penstock.Table) -> str:
    """Return a filter on the value, by the name that its column has now."""
    return "amount = 1" if "amount" in table.schema.names else "v = 1"


def count(_world: World, table: penstock.Table) -> Begun:
    name = name_of(table)
    return [(80,)], lambda world: [(world.table(name).count(is_one(world.table(name))),)]


def first_rows(_world: World, table: penstock.Table) -> Begun:
    name = name_of(table)

    def finish(world: World) -> Rows:
        return rows(world.table(name).scan(filter="id < 40", order_by="id desc, day", limit=2).to_arrow().to_batches())

    return [(39, "mon", 1), (39, "tue", 1)], finish


def past_lookup(_world: World, table: penstock.Table) -> Begun:
    cut, name = table.cut(), name_of(table)
    table.upsert(values(2), columns=["v"])
    return [(3, "tue", 1)], lambda world: keyed(world.table(name).lookup([KEY], as_of=cut).to_pylist()[0])


def past_count(_world: World, table: penstock.Table) -> Begun:
    cut, name = table.cut(), name_of(table)
    table.upsert(values(2), columns=["v"])
    return [(80,)], lambda world: [(world.table(name).count(is_one(world.table(name)), as_of=cut),)]


def past_first_rows(_world: World, table: penstock.Table) -> Begun:
    cut, name = table.cut(), name_of(table)
    table.upsert(values(2), columns=["v"])

    def finish(world: World) -> Rows:
        found = world.table(name).scan(as_of=cut, filter="id < 40", order_by="id desc, day", limit=2)
        return rows(found.to_arrow().to_batches())

    return [(39, "mon", 1), (39, "tue", 1)], finish


def moment_scan(world: World, table: penstock.Table) -> Begun:
    moment, name = world.moment(), name_of(table)
    table.upsert(values(2), columns=["v"])
    return at(1), lambda world: rows(world.table(name).scan(as_of=moment))


def moment_lookup(world: World, table: penstock.Table) -> Begun:
    moment, name = world.moment(), name_of(table)
    table.upsert(values(2), columns=["v"])
    return [(3, "tue", 1)], lambda world: keyed(world.table(name).get(**KEY, as_of=moment))


def filtered_changes(_world: World, table: penstock.Table) -> Begun:
    with table.changes(filter="v = 1") as stream:
        first = next(stream)
        position = stream.position
    table.upsert(values(2), columns=["v"])
    name = name_of(table)
    promised = sorted((*row, kind) for row in at(1) for kind in ("+I", "-D"))

    def finish(world: World) -> Rows:
        table = world.table(name)
        return only(promised, changes([first, *table.changes(start=position, filter=is_one(table))]))

    return promised, finish


def filtered_snapshot(_world: World, table: penstock.Table) -> Begun:
    with table.snapshot_and_follow(filter="v = 1", follow=False) as stream:
        first = next(stream)
        position = stream.position
    table.upsert(values(2), columns=["v"])
    name = name_of(table)
    promised = sorted((*row, kind) for row in at(1) for kind in ("+I", "-D"))

    def finish(world: World) -> Rows:
        rest = world.table(name).snapshot_and_follow(start=position, filter="v = 1", follow=False)
        return only(promised, changes([first, *rest]))

    return promised, finish


def compare_and_set(_world: World, table: penstock.Table) -> Begun:
    offset = table.lookup([KEY], offsets=True).column("_offset")[0].as_py()
    name = name_of(table)

    def finish(world: World) -> Rows:
        table = world.table(name)
        column = "amount" if "amount" in table.schema.names else "v"
        table.upsert([{**KEY, column: 6}], columns=[column], expect=[offset])
        return keyed(table.get(**KEY))

    return [(3, "tue", 6)], finish


FEATURES_ANYWHERE: dict[str, Feature] = {
    "count": count,
    "first_rows": first_rows,
    "past_lookup": past_lookup,
    "past_count": past_count,
    "past_first_rows": past_first_rows,
    "moment_scan": moment_scan,
    "moment_lookup": moment_lookup,
    "filtered_changes": filtered_changes,
    "filtered_snapshot": filtered_snapshot,
    "compare_and_set": compare_and_set,
}


def backup(world: World, table: penstock.Table) -> Begun:
    target, name = world.scratch("backup"), name_of(table)
    world.conn.backup(target)

    def finish(world: World) -> Rows:
        copy = world.scratch("copy")
        if not copy.exists():
            penstock.restore(target, copy)
        with penstock.connect(copy) as restored:
            return rows(restored.table(f"shop.{name}").scan())

    return at(1), finish


def next_backup(world: World, table: penstock.Table) -> Begun:
    target, name = world.scratch("backups"), name_of(table)
    world.conn.backup(target)
    table.upsert(values(2), columns=["v"])

    def finish(world: World) -> Rows:
        world.conn.backup(target)
        copy = world.scratch(f"next-copy-{len(list(target.parent.iterdir()))}")
        penstock.restore(target, copy)
        with penstock.connect(copy) as restored:
            found = (
                restored.table(f"shop.{name}").scan().to_arrow().sort_by([("id", "ascending"), ("day", "ascending")])
            )
        there = world.table(name).scan().to_arrow().sort_by([("id", "ascending"), ("day", "ascending")])
        return [("like the table", found.equals(there))]

    return [("like the table", True)], finish


def held_reader(world: World, table: penstock.Table) -> Begun:
    reader = penstock.connect(world.directory, read_only=True)
    name = name_of(table)

    def finish(_world: World) -> Rows:
        with closing(reader):
            return rows(reader.table(f"shop.{name}").scan())

    return at(1), finish


def later_reader(_world: World, table: penstock.Table) -> Begun:
    cut, name = table.cut(), name_of(table)
    table.upsert(values(2), columns=["v"])

    def finish(world: World) -> Rows:
        with penstock.connect(world.directory, read_only=True) as reader:
            return rows(reader.table(f"shop.{name}").scan(as_of=cut))

    return at(1), finish


FEATURES_OF_FILES: dict[str, Feature] = {
    "backup": backup,
    "next_backup": next_backup,
    "held_reader": held_reader,
    "later_reader": later_reader,
}
