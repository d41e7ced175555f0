"""Rows that go some time after their last write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from tests.kit.memory_engine import MemoryEngine

import penstock
from penstock.engine.upkeep.row_expiry import RowExpiry
from penstock.errors import InvalidError, LockedError
from penstock.model.place.bucket import TableBucket
from penstock.runtime.metrics import Counter
from penstock.runtime.steady_clock import SteadyClock

SECOND, HOUR, DAY = 1_000, 3_600_000, 86_400_000
DDL = "id BIGINT, n BIGINT, m BIGINT, PRIMARY KEY (id)"
SUMS = "id BIGINT, n BIGINT SUM, m BIGINT MAX, PRIMARY KEY (id)"
Make = Callable[..., penstock.Table]


@pytest.fixture
def engine() -> Iterator[MemoryEngine]:
    engine = MemoryEngine()
    yield engine
    engine.close()


@pytest.fixture
def make(engine: MemoryEngine) -> Make:
    connection = penstock.Connection(engine, "memory")

    def make(path: str = "t", schema: str = DDL, ttl: str = "1h", **options: Any) -> penstock.Table:
        properties = {"row.ttl": ttl, **options.pop("properties", {})}
        return connection.create_table(path, schema, properties=properties, **options)

    return make


def row(key: int, n: int = 0) -> dict[str, int]:
    return {"id": key, "n": n, "m": 0}


def ids(table: penstock.Table) -> list[int]:
    return sorted(found["id"] for found in table.scan().to_arrow().to_pylist())


def pass_time(engine: MemoryEngine, ms: int) -> None:
    """Let time pass as it does: in steps, with background work in between."""
    for _ in range(4):
        engine.pass_time(ms // 4)


def test_a_row_goes_within_a_minute_after_its_time_and_not_before(engine: MemoryEngine, make: Make) -> None:
    table = make()
    table.upsert([row(1)])
    pass_time(engine, HOUR // 2)
    table.upsert([row(2)])

    pass_time(engine, HOUR // 2)
    assert ids(table) == [1, 2]
    pass_time(engine, 60 * SECOND)
    assert ids(table) == [2]
    pass_time(engine, HOUR // 2)
    assert ids(table) == []
    kinds = [kind for batch in table.changes() for kind in batch.column("_change_type").to_pylist()]
    assert kinds == ["+I", "+I", "-D", "-D"]
    assert table.stats().background["rows_expired"] == 2
    assert engine.metrics.snapshot()["penstock_rows_expired"] == 2


@pytest.mark.parametrize(
    ("schema", "options", "touch"),
    [
        (DDL, {}, lambda t: t.upsert([{"id": 1, "n": 5}], columns=["n"])),
        (DDL, {"merge_engine": "first_row"}, lambda t: t.upsert([{"id": 1, "n": 9, "m": 9}])),
        (DDL, {"merge_engine": "versioned", "version_column": "n"}, lambda t: t.upsert([{"id": 1, "n": 4, "m": 9}])),
        (SUMS, {}, lambda t: t.upsert([{"id": 1, "n": 0, "m": -5}])),
        (SUMS, {}, lambda t: t.apply_changes([{"id": 1, "n": 0, "m": None, "_change_type": "+I"}])),
    ],
    ids=["partial update", "first row", "older version", "aggregate", "changes"],
)
def test_a_write_that_changes_nothing_counts(
    schema: str, options: Any, touch: Callable[[penstock.Table], Any], engine: MemoryEngine, make: Make
) -> None:
    table = make(schema=schema, **options)
    table.upsert([{"id": 1, "n": 5, "m": 6}, {"id": 2, "n": 5, "m": 6}])
    first = touch(table)
    before = table.get(id=1)

    for _ in range(4):
        pass_time(engine, HOUR // 2)
        touch(table)
    last = touch(table)

    # Right after another write nothing is to be written; half an hour later there is.
    assert (first.changes, first.ignored) == (last.changes, last.ignored) == (0, 1)
    assert table.get(id=1) == before == {"id": 1, "n": 5, "m": 6}
    assert ids(table) == [1]
    pass_time(engine, HOUR + 60 * SECOND)
    assert ids(table) == []


@pytest.mark.parametrize(
    "options", [{"merge_engine": "first_row"}, {"merge_engine": "versioned", "version_column": "n"}], ids=str
)
def test_a_write_that_changes_nothing_keeps_the_default_of_a_column_added_since(
    options: Any, engine: MemoryEngine, make: Make
) -> None:
    table = make(**options)
    table.upsert([row(1, n=5)])
    table = table.add_column("note", "STRING", default="none")
    pass_time(engine, HOUR // 2)

    result = table.upsert([{"id": 1, "n": 4, "m": 9, "note": "lost"}])

    assert result.changes == 1
    assert table.get(id=1) == {"id": 1, "n": 5, "m": 0, "note": "none"}


def test_a_table_without_it_writes_nothing_where_nothing_changes(engine: MemoryEngine) -> None:
    connection = penstock.Connection(engine, "memory")
    table = connection.create_table("t", DDL, merge_engine="first_row")
    table.upsert([row(1)])
    pass_time(engine, 2 * DAY)

    assert table.upsert([row(1)]).changes == 0
    assert ids(table) == [1]


def test_rows_go_past_locks_and_whatever_deletes_do(engine: MemoryEngine, make: Make) -> None:
    kinds: list[dict[str, Any]] = [
        {"properties": {"delete.behavior": "disable"}},
        {"properties": {"delete.behavior": "ignore"}},
        {"merge_engine": "first_row"},
        {"merge_engine": "versioned", "version_column": "n"},
    ]
    for number, options in enumerate(kinds):
        table = make(f"t{number}", **options)
        table.upsert([row(1)])
        pass_time(engine, HOUR + 60 * SECOND)
        assert ids(table) == []
    sums = make("sums", SUMS)
    sums.upsert([row(1), row(2)])
    with sums.acquire_owner("job", columns=["n"], ttl="7d") as owner:
        with pytest.raises(LockedError):
            sums.upsert([row(1)])
        owner.begin(epoch=1)
        sums.upsert([{"id": 3, "n": 1}], columns=["n"], owner=owner)
        pass_time(engine, HOUR + 60 * SECOND)
        assert ids(sums) == [3]
        owner.commit(epoch=1)


def test_a_row_that_an_open_epoch_changed_waits_for_its_end(engine: MemoryEngine, make: Make) -> None:
    table = make("t", SUMS)
    table.upsert([row(key, 1) for key in range(1, 6)])
    owner = table.acquire_owner("job", columns=["n"], ttl="7d")
    owner.begin(epoch=1)
    table.upsert([{"id": 2, "n": 5}, {"id": 3, "n": 5}], columns=["n"], owner=owner)
    table.upsert([{"id": 3, "m": 7}, {"id": 4, "m": 7}], columns=["m"])

    pass_time(engine, 2 * HOUR)
    assert ids(table) == [2, 3]
    owner.undo()
    assert table.get(id=2) == {"id": 2, "n": 1, "m": 0}
    pass_time(engine, HOUR // 2)
    assert ids(table) == [2, 3]  # an undo is a change
    owner.begin(epoch=2)
    table.upsert([{"id": 2, "n": 5}], columns=["n"], owner=owner)
    pass_time(engine, HOUR)
    assert ids(table) == [2]
    owner.commit(epoch=2)
    pass_time(engine, 60 * SECOND)
    assert ids(table) == []
    owner.release()


def test_older_readers_still_see_the_rows(engine: MemoryEngine, make: Make) -> None:
    table = make()
    table.upsert([row(1), row(2)])
    cut = table.cut()
    with penstock.Connection(engine, "memory").acquire_lease("l", cut, duration="7d"):
        pass_time(engine, 2 * HOUR)
        assert ids(table) == []
        assert table.scan(as_of=cut).to_arrow().num_rows == 2


def test_the_property_comes_and_goes(engine: MemoryEngine, make: Make) -> None:
    table = make(ttl="7d")
    table.upsert([row(1)])
    pass_time(engine, 2 * DAY)
    assert ids(table) == [1]
    table.set_properties({"row.ttl": "1d"})
    pass_time(engine, 60 * SECOND)
    assert ids(table) == []
    table.upsert([row(2)])
    table.set_properties({"row.ttl": None})
    pass_time(engine, 9 * DAY)
    assert ids(table) == [2]


def test_ages_are_known_when_the_history_is_gone(engine: MemoryEngine, make: Make) -> None:
    table = make(ttl="3d")
    for hour in range(0, 48, 6):
        table.upsert([row(hour), row(100)])
        pass_time(engine, 6 * HOUR)
    bucket = TableBucket("default.t", None, 0)
    engine.forget_before(bucket, table.offsets()[bucket].end)
    engine.forget_before(bucket, table.offsets()[bucket].end)

    pass_time(engine, DAY + 60 * SECOND)
    assert ids(table) == [6, 12, 18, 24, 30, 36, 42, 100]
    pass_time(engine, 12 * HOUR)
    assert ids(table) == [18, 24, 30, 36, 42, 100]


def test_a_clock_that_jumps_ahead_deletes_nothing(engine: MemoryEngine, make: Make) -> None:
    table = make()
    table.upsert([row(1)])
    pass_time(engine, 10 * SECOND)

    engine.clock.jump_wall(10 * DAY)
    pass_time(engine, 60 * SECOND)
    assert ids(table) == [1]
    engine.clock.jump_wall(-10 * DAY)
    pass_time(engine, HOUR + 60 * SECOND)
    assert ids(table) == []


def test_many_rows_go_a_step_at_a_time(engine: MemoryEngine, make: Make) -> None:
    expiry = RowExpiry(
        engine._catalog,
        engine._tables.get,
        SteadyClock(engine.clock),
        engine.maintenance,
        Counter(),
        rows_each_max=7,
        steps_max=3,
    )
    table = make(buckets=2)
    table.upsert([row(key) for key in range(100)])
    engine.clock.advance(HOUR + 60 * SECOND)
    left = []
    while ids(table):
        expiry.run()
        left.append(len(ids(table)))

    assert left[-1] == 0
    assert all(a - b <= 2 * 3 * 7 for a, b in zip([100, *left], left, strict=False))


def test_a_log_table_has_no_such_property(make: Make) -> None:
    with pytest.raises(InvalidError, match=r"log\.retention"):
        make(schema="id BIGINT, n BIGINT")


@pytest.mark.parametrize("seed", range(12))
def test_rows_stay_exactly_as_long_as_they_may_beside_an_oracle(seed: int, engine: MemoryEngine, make: Make) -> None:
    print(f"seed={seed}")
    random = Random(seed)
    kind = random.choice(["last_row", "first_row", "versioned", "aggregate"])
    schema = "day INT, id BIGINT, n BIGINT, m BIGINT, PRIMARY KEY (day, id)"
    if kind == "aggregate":
        schema = "day INT, id BIGINT, n BIGINT SUM, m BIGINT MAX, PRIMARY KEY (day, id)"
    table = make(
        schema=schema,
        ttl="10min",
        merge_engine=kind,
        version_column="n" if kind == "versioned" else None,
        buckets=random.randint(1, 3),
        partitioned_by=["day"] if random.random() < 0.5 else None,
    )
    written: dict[tuple[int, int], int] = {}
    for _ in range(60):
        keys = {(random.randrange(2), random.randrange(20)) for _ in range(random.randint(1, 6))}
        rows = [{"day": day, "id": key, "n": random.randint(0, 2), "m": random.randint(0, 2)} for day, key in keys]
        if kind in ("last_row", "aggregate") and random.random() < 0.5:
            table.upsert([{name: r[name] for name in ("day", "id", "n")} for r in rows], columns=["n"])
        else:
            table.upsert(rows)
        now = engine.clock.wall_ms()
        written.update(dict.fromkeys(keys, now))
        engine.pass_time(random.choice([200, 5 * SECOND, 20 * SECOND, 100 * SECOND]))
        if random.random() < 0.2:
            for bucket, offsets in table.offsets().items():
                engine.forget_before(bucket, random.randint(offsets.base, offsets.end))
        now, found = engine.clock.wall_ms(), set(live_keys(table))
        assert found <= written.keys()
        for key, at in list(written.items()):
            if now - at <= 600 * SECOND:
                assert key in found, (key, now - at)
            elif now - at > 660 * SECOND:
                assert key not in found, (key, now - at)
            if key not in found:
                del written[key]


def live_keys(table: penstock.Table) -> list[tuple[int, int]]:
    return [(found["day"], found["id"]) for found in table.scan().to_arrow().to_pylist()]
