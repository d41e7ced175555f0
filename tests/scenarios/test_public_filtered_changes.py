"""Changes through a filter: an update that leaves it is -D, one that enters it +I, and the rest does not come."""

from __future__ import annotations

import itertools
import random
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.scenarios.conftest import Connect

import penstock
from penstock.errors import InvalidError, UnsupportedError

SCHEMA = "id BIGINT NOT NULL, n BIGINT, s STRING, PRIMARY KEY (id)"
BIG = "n > 10"
Rows = dict[int, dict[str, Any]]


def facts(stream: penstock.ChangeStream, *columns: str) -> list[tuple[Any, ...]]:
    names = ("_change_type", *columns)
    return [tuple(row[name] for name in names) for batch in stream for row in batch.to_pylist()]


def apply(rows: Rows, stream: penstock.ChangeStream, columns: list[str]) -> Rows:
    """Return rows after the changes; each must fit what was there before."""
    rows = dict(rows)
    for batch in stream:
        for row in batch.to_pylist():
            kind, value = row["_change_type"], {name: row[name] for name in columns}
            if kind == "+I":
                assert value["id"] not in rows
            else:
                assert value["id"] in rows
            if kind == "-U":
                assert rows[value["id"]] == value
            elif kind == "-D":
                del rows[value["id"]]
            else:
                rows[value["id"]] = value
    return rows


def snapshot(table: penstock.Table, cut: penstock.Cut, filter: str, columns: list[str]) -> Rows:
    found = table.scan(as_of=cut, filter=filter, columns=columns).to_arrow().to_pylist()
    return {row["id"]: row for row in found}


def test_an_update_that_leaves_the_filter_is_a_delete_and_one_that_enters_it_an_insert(
    connection: penstock.Connection,
) -> None:
    table = connection.create_table("shop.t", SCHEMA)
    table.upsert({"id": [1, 2, 3, 4], "n": [20, 5, 20, None], "s": ["a"] * 4})
    for key, n in ((1, 30), (1, 5), (2, 6), (2, 50), (4, 7), (4, 70), (4, None)):
        table.upsert({"id": [key], "n": [n], "s": ["b"]})
    table.delete({"id": [2]})
    table.delete({"id": [1]})

    full = facts(table.changes(filter=BIG), "id", "n")
    after = facts(table.changes(filter=BIG, images="after"), "id", "n")

    assert full == [
        ("+I", 1, 20),
        ("+I", 3, 20),
        ("-U", 1, 20),
        ("+U", 1, 30),
        ("-D", 1, 30),
        ("+I", 2, 50),
        ("+I", 4, 70),
        ("-D", 4, 70),
        ("-D", 2, 50),
    ]
    assert after == [
        ("+I", 1, 20),
        ("+I", 3, 20),
        ("+U", 1, 30),
        ("-D", 1, None),
        ("+I", 2, 50),
        ("+I", 4, 70),
        ("-D", 4, None),
        ("-D", 2, None),
    ]
    assert facts(table.changes(filter=penstock.col("n") > 10, columns=["s"])) == [(kind,) for kind, *_ in full]
    assert facts(table.changes(filter="id = 2"), "n") == [
        ("+I", 5),
        ("-U", 5),
        ("+U", 6),
        ("-U", 6),
        ("+U", 50),
        ("-D", 50),
    ]


@pytest.mark.parametrize("seed", range(6))
def test_a_filtered_snapshot_and_filtered_changes_make_the_later_filtered_snapshot(connect: Connect, seed: int) -> None:
    print("seed", seed)
    chance = random.Random(seed)
    connection = connect(kv__snapshot__interval="1h")
    connection.create_database("shop")
    engines: dict[str, Any] = {"merge_engine": chance.choice(["last_row", "last_row", "versioned"])}
    if engines["merge_engine"] == "versioned":
        engines["version_column"] = "n"
    table = connection.create_table("shop.t", SCHEMA, buckets=3, **engines)
    filter = chance.choice([BIG, "n > 10 OR s IS NULL", "id < 8", "n IS NULL", "s = 'a' AND NOT n = 3", "id IN (1, 2)"])
    columns = chance.choice([["id", "n", "s"], ["id"], ["id", "s"]])
    cuts, positions = [table.cut()], []
    for _ in range(5):
        for _ in range(chance.randrange(1, 12)):
            ids = chance.sample(range(16), chance.randrange(1, 8))
            if chance.random() < 0.2 and engines["merge_engine"] == "last_row":
                table.delete({"id": ids})
                continue
            n = [chance.choice([None, 3, 10, 11, 20]) for _ in ids]
            table.upsert({"id": ids, "n": n, "s": [chance.choice(["a", "b", None]) for _ in ids]})
        cuts.append(table.cut())
    for images in ("full", "after"):
        for start, end in itertools.pairwise(cuts):
            stream = table.changes(start, end, filter=filter, images=images, columns=columns)
            rows = apply(snapshot(table, start, filter, columns), stream, columns)
            assert rows == snapshot(table, end, filter, columns), (seed, images)
            positions.append(stream.position)
            assert not list(table.changes(stream.position, end, filter=filter))


def test_a_filtered_snapshot_is_followed_by_filtered_changes(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA, buckets=2)
    table.upsert({"id": list(range(40)), "n": list(range(40)), "s": ["a"] * 40})
    stream = table.snapshot_and_follow(filter=BIG, timeout="300ms")
    first = next(stream)
    position = stream.position
    table.upsert({"id": [39, 1], "n": [0, 100], "s": ["b", "b"]})

    rows = apply({row["id"]: {"id": row["id"]} for row in first.to_pylist()}, stream, ["id"])
    again = table.snapshot_and_follow(position, filter=BIG, timeout="300ms")
    resumed = apply({row["id"]: {"id": row["id"]} for row in first.to_pylist()}, again, ["id"])

    assert set(rows) == set(resumed) == {1, *range(11, 39)}
    with pytest.raises(InvalidError, match="read with another filter"):
        table.snapshot_and_follow(position, filter="n > 11")


def test_a_stream_that_finds_nothing_moves_on_and_holds_nothing_behind_it(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA)
    table.upsert({"id": list(range(100)), "n": [0] * 100, "s": ["a"] * 100})
    with table.changes(filter=BIG, follow=True, timeout="200ms") as stream:
        assert list(stream) == []
        position = stream.position
        assert "[null,0,100]" in position
        table.upsert({"id": [1], "n": [50], "s": ["a"]})
        assert facts(table.changes(position, filter=BIG), "id") == [("+I", 1)]

    # Changes that do not pass come all the time: the stream ends nevertheless, at the end.
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            table.upsert({"id": [7], "n": [0], "s": ["a"]})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        begun = datetime.now(UTC)
        stream = table.changes(filter="n > 1000", follow=True, timeout="500ms")
        assert list(stream) == []
        assert (datetime.now(UTC) - begun).total_seconds() < 20
        table.upsert({"id": [8], "n": [2000], "s": ["a"]})
        assert facts(table.changes(stream.position, filter="n > 1000"), "id") == [("+I", 8)]
    finally:
        stop.set()
        writer.join()


def test_a_log_table_gives_the_rows_that_pass(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.clicks", "n BIGINT, s STRING", buckets=2)
    table.append({"n": list(range(20)), "s": ["x"] * 20})
    table.append({"n": [None], "s": [None]})

    assert sorted(facts(table.changes(filter=BIG), "n")) == [("+A", n) for n in range(11, 20)]
    assert sorted(facts(table.changes(filter="n > 17", columns=["s"], images="after"), "s")) == [("+A", "x")] * 2
    assert sorted(facts(table.snapshot_and_follow(filter="n > 18", timeout="100ms"), "n")) == [("+A", 19)]


def test_large_changes_come_in_many_pages_and_none_is_missed(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA)
    count = 60_000
    table.upsert({"id": list(range(count)), "n": list(range(count)), "s": ["a" * 200] * count})
    table.upsert({"id": list(range(count)), "n": [0] * count, "s": ["b" * 200] * count})

    found = facts(table.changes(filter=f"n >= {count - 30_000}"), "id")

    assert len(found) == 60_000
    assert [key for kind, key in found if kind == "+I"] == list(range(count - 30_000, count))
    assert [key for kind, key in found if kind == "-D"] == list(range(count - 30_000, count))


def test_a_partition_and_a_lease_are_read_through_a_filter(connection: penstock.Connection) -> None:
    table = connection.create_table(
        "shop.days", "day STRING, id BIGINT, n BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"]
    )
    table.upsert([{"day": day, "id": i, "n": i} for day in ("mon", "tue") for i in range(20)])
    lease = connection.acquire_lease("job", table.cut())
    table.upsert([{"day": "mon", "id": 1, "n": 99}])
    connection.drop_table("shop.days")

    leased = lease.table("shop.days")
    assert len(facts(leased.changes(filter="n > 17 AND day = 'mon'"), "id")) == 2
    with pytest.raises(UnsupportedError):
        leased.changes(filter=BIG, follow=True)


def test_what_is_no_filter_is_refused(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA)

    with pytest.raises(InvalidError):
        table.changes(filter="none = 1")
    with pytest.raises(InvalidError):
        table.snapshot_and_follow(filter="_offset > 1")
