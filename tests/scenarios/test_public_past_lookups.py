"""Rows by key as they were: at a cut, at a moment, of keys that changed, went, and came again since."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from tests.scenarios.conftest import Connect

import penstock
from penstock.errors import InvalidError, OffsetOutOfRangeError, PartitionNotFoundError

SCHEMA = "id BIGINT NOT NULL, n BIGINT, PRIMARY KEY (id)"


def just_before() -> datetime:
    """Return a moment, when it is over: writes from now on are later than it."""
    moment = datetime.now(UTC)
    while datetime.now(UTC) - moment < timedelta(milliseconds=2):
        pass
    return moment


@pytest.mark.parametrize("keys", ["id BIGINT NOT NULL", "id STRING NOT NULL", "id DATE NOT NULL, part INT NOT NULL"])
@pytest.mark.parametrize("seed", range(2))
def test_a_lookup_of_the_past_finds_what_a_scan_of_the_past_shows(connect: Connect, keys: str, seed: int) -> None:
    print("seed", seed)
    chance = random.Random(seed)
    connection = connect()
    connection.create_database("shop")
    names = [word.split()[0] for word in keys.split(", ")]
    table = connection.create_table("shop.t", f"{keys}, n BIGINT, PRIMARY KEY ({', '.join(names)})", buckets=3)

    def key(number: int) -> dict[str, Any]:
        value: Any = {"BIGINT": number, "STRING": f"k{number}", "DATE": date(2026, 1, 1) + timedelta(days=number)}[
            keys.split()[1]
        ]
        return {"id": value} | ({"part": number % 3} if "part" in names else {})

    cuts = [table.cut()]
    for turn in range(30):
        some = chance.sample(range(40), chance.randrange(1, 12))
        if chance.random() < 0.3:
            table.delete([key(number) for number in some])
        else:
            table.upsert([key(number) | {"n": turn} for number in some])
        if chance.random() < 0.1:
            table.create_snapshot()
        cuts.append(table.cut())
    # One key that changes more often than a chain is followed.
    for turn in range(50):
        table.upsert([key(0) | {"n": turn}])
    wanted = [key(number) for number in (*range(50), 3, 3)]
    for cut in chance.sample(cuts, 12):
        shown = {
            tuple(row[name] for name in names): row
            for row in table.scan(as_of=cut, offsets=True).to_arrow().to_pylist()
        }
        found = table.lookup(wanted, as_of=cut, offsets=True).to_pylist()
        for asked, row in zip(wanted, found, strict=True):
            expected = shown.get(tuple(asked.values()))
            assert row.pop("_found") == (expected is not None)
            assert row == (expected or asked | {"n": None, "_offset": None})
        one = chance.choice(wanted)
        expected = shown.get(tuple(one.values()))
        assert table.get(**one, as_of=cut.to_json()) == (expected and {name: expected[name] for name in (*names, "n")})


def test_a_key_is_looked_up_at_a_moment(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA, buckets=2)
    table.upsert({"id": [1, 2, 3], "n": [1, 1, 1]})
    moment = just_before()
    table.upsert({"id": [1, 4], "n": [2, 2]})
    table.delete({"id": [2, 3]})
    table.upsert({"id": [3], "n": [3]})

    assert table.get(id=1, as_of=moment) == {"id": 1, "n": 1}
    assert table.get(2, as_of=moment.isoformat()) == {"id": 2, "n": 1}
    assert table.get(3, as_of=moment) == {"id": 3, "n": 1}
    assert table.get(4, as_of=moment) is None
    assert table.get(1) == {"id": 1, "n": 2}
    found = table.lookup([{"id": 3}, {"id": 4}], ["n"], moment, offsets=True)
    assert found["n"].to_pylist() == [1, None]
    assert found["_found"].to_pylist() == [True, False]
    with pytest.raises(InvalidError, match="no zone"):
        table.get(1, as_of="2026-01-01T00:00:00")
    with pytest.raises(InvalidError, match="in the future"):
        table.lookup([{"id": 1}], as_of=datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(OffsetOutOfRangeError):
        table.lookup([{"id": 1}], as_of={0: 10_000, 1: 10_000})
    with pytest.raises(InvalidError, match="names every bucket"):
        table.lookup([{"id": 1}], as_of={0: 1})


def test_partitions_of_then_are_looked_up_or_refused(connection: penstock.Connection) -> None:
    table = connection.create_table(
        "shop.days", "day STRING, id BIGINT, n BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"], buckets=2
    )
    table.upsert([{"day": "mon", "id": i, "n": 1} for i in range(6)])
    cut = table.cut()
    table.upsert([{"day": day, "id": i, "n": 2} for day in ("mon", "tue") for i in range(3)])

    keys = [{"day": day, "id": i} for day in ("mon", "tue", "wed") for i in (0, 5)]
    assert table.lookup(keys, as_of=cut)["n"].to_pylist() == [1, 1, None, None, None, None]
    table.drop_partition({"day": "mon"})
    with pytest.raises(PartitionNotFoundError):
        table.lookup(keys, as_of=cut)


def test_a_key_is_given_by_position_where_it_is_alone(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA)
    pair = connection.create_table("shop.pair", "a BIGINT, b BIGINT, PRIMARY KEY (a, b)")
    odd = connection.create_table("shop.odd", "as_of BIGINT, n BIGINT, PRIMARY KEY (as_of)")
    table.upsert({"id": [1], "n": [1]})
    odd.upsert({"as_of": [7], "n": [1]})

    assert table.get(1) == table.get(id=1) == {"id": 1, "n": 1}
    assert odd.get(as_of=7) == odd.get(7) == {"as_of": 7, "n": 1}
    with pytest.raises(InvalidError, match="a lone key"):
        pair.get(1)
    with pytest.raises(InvalidError, match="a lone key"):
        table.get(1, id=1)
