"""A staged commit applies all that it names or says what is missing, also where partitions went meanwhile."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import ConflictError
from penstock.model.table.merge_engine import MergeEngineLike

KEYED = "day STRING, k BIGINT, v BIGINT, PRIMARY KEY (day, k)"
SUMS = "day STRING, k BIGINT, v BIGINT SUM, PRIMARY KEY (day, k)"
LOG = "day STRING, k BIGINT, v BIGINT"
DAYS = ("mon", "tue")


@pytest.fixture(params=["keyed", "sums", "log"])
def table(request: pytest.FixtureRequest, connection: penstock.Connection) -> penstock.Table:
    ddl = {"keyed": KEYED, "sums": SUMS, "log": LOG}[request.param]
    engine: MergeEngineLike | None = "aggregate" if request.param == "sums" else None
    return connection.create_table("shop.t", ddl, partitioned_by=["day"], buckets=2, merge_engine=engine)


def day(name: str, *keys: int) -> list[dict[str, Any]]:
    return [{"day": name, "k": key, "v": 1} for key in keys]


def rows(table: penstock.Table) -> list[tuple[str, int]]:
    found = table.scan(columns=["day", "k"]).to_arrow().to_pylist()
    return sorted((row["day"], row["k"]) for row in found)


def stage(table: penstock.Table, owner: penstock.Owner) -> dict[uuid.UUID, int]:
    """Stage each day in an attempt of its own."""
    attempts = {name: uuid.uuid4() for name in DAYS}
    for name, attempt in attempts.items():
        table.stage(day(name, 1, 2, 3), owner=owner.token(1), attempt=attempt)
    return dict.fromkeys(attempts.values(), 3)


WHOLE = [(name, key) for name in DAYS for key in (1, 2, 3)]


@pytest.mark.parametrize("again", [False, True], ids=["dropped", "created again"])
def test_commit_says_which_partitions_and_attempts_are_missing(table: penstock.Table, *, again: bool) -> None:
    owner = table.acquire_owner("job")
    owner.begin(1)
    attempts = stage(table, owner)
    table.drop_partition({"day": "mon"})
    if again:
        table.create_partition({"day": "mon"})

    with pytest.raises(ConflictError, match="dropped") as refused:
        owner.commit(1, attempts=attempts)

    assert refused.value.facts["partitions"] == ["day=mon"]
    assert refused.value.facts["attempts"] == [next(iter(attempts)).hex]
    assert rows(table) == []
    # The same epoch, written again, counts.
    assert owner.begin(1) == "new"
    owner.commit(1, attempts=stage(table, owner))
    assert rows(table) == WHOLE
    assert owner.begin(1) == "committed"


@pytest.mark.parametrize("way", ["undo", "drop", "leave", "release", "without it"])
def test_there_is_a_way_on_after_a_commit_that_failed(
    connection: penstock.Connection, table: penstock.Table, way: str
) -> None:
    owner = table.acquire_owner("job")
    owner.begin(1)
    attempts = stage(table, owner)
    table.drop_partition({"day": "mon"})
    for _ in range(2):
        with pytest.raises(ConflictError, match="dropped"):
            owner.commit(1, attempts=attempts)

    if way == "without it":
        rest = list(attempts)[1]
        owner.commit(1, attempts={rest: 3})
        assert rows(table) == [("tue", key) for key in (1, 2, 3)]
        return
    if way == "undo":
        owner.undo()
    elif way == "leave":
        owner.leave()
    elif way == "release":
        owner.release()
    else:
        connection.drop_owner("job", "shop.t")
    fresh = table.acquire_owner("job")
    assert fresh.begin(1) == "new"
    fresh.commit(1, attempts=stage(table, fresh))
    assert rows(table) == WHOLE


def test_commit_after_a_restart_says_what_is_missing(tmp_path: Path) -> None:
    with penstock.connect(tmp_path) as connection:
        table = connection.create_table("t", LOG, partitioned_by=["day"])
        owner = table.acquire_owner("job")
        owner.begin(1)
        attempts = stage(table, owner)
        table.drop_partition({"day": "tue"})

    with penstock.connect(tmp_path) as connection:
        table = connection.table("t")
        again = table.acquire_owner("job")
        with pytest.raises(ConflictError, match="day=tue"):
            again.commit(1, attempts=attempts)
        assert again.begin(1) == "new"


def test_commit_says_that_a_partition_expired(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", KEYED, partitioned_by=["day"], properties={"partition.retention": "1s"})
    owner = table.acquire_owner("job")
    owner.begin(1)
    attempts = stage(table, owner)
    end = time.monotonic() + 60
    while table.list_partitions():
        assert time.monotonic() < end, "the partitions did not expire"

    # On a busy machine one may have expired before the rows of the other were staged.
    with pytest.raises(ConflictError, match=r"day=(mon|tue)"):
        owner.commit(1, attempts=attempts)
    assert rows(table) == []
