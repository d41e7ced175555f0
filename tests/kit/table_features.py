"""The features of a table: each begins, and is brought to its end after something happened to the table."""

from __future__ import annotations

from collections.abc import Callable

from tests.kit.feature_world import (
    IDS,
    KEY,
    Feature,
    Rows,
    World,
    at,
    changes,
    inserted,
    name_of,
    only,
    rows,
    updated,
    value,
    values,
)

import penstock


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
        return [(row["id"], row["day"], value(row)) for row in found]

    return [(KEY["id"], KEY["day"], 1)], finish


def handle(_world: World, table: penstock.Table) -> tuple[Rows, Callable[[World], Rows]]:
    return [(KEY["id"], KEY["day"], 1)], lambda _: [
        (row["id"], row["day"], value(row)) for row in table.lookup([KEY]).to_pylist()
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


TABLE_FEATURES: dict[str, Feature] = {
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
