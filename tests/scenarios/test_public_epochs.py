"""What an owner's handle may write before, in, between and after its epochs, embedded and against a server."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import ConflictError, FencedError, InvalidError

DDL = "city STRING, revenue BIGINT SUM, visits BIGINT SUM, PRIMARY KEY (city)"
BETWEEN = "leave"
Write = Callable[[penstock.Table, penstock.Owner], object]


@pytest.fixture
def table(connection: penstock.Connection) -> penstock.Table:
    return connection.create_table("shop.revenue", DDL, merge_engine="aggregate", buckets=3)


def ulm(revenue: int = 10) -> list[dict[str, Any]]:
    return [{"city": "Ulm", "revenue": revenue}]


def total(table: penstock.Table) -> int | None:
    row = table.get(city="Ulm")
    return None if row is None else row["revenue"]


def with_writer(table: penstock.Table, owner: penstock.Owner) -> None:
    with table.writer(owner=owner) as writer:
        writer.upsert(ulm())


WRITES: dict[str, Write] = {
    "upsert": lambda table, owner: table.upsert(ulm(), owner=owner),
    "token": lambda table, owner: table.upsert(ulm(), owner=owner.token()),
    "delete": lambda table, owner: table.delete([{"city": "Ulm"}], columns=["revenue"], owner=owner),
    "apply": lambda table, owner: table.apply_changes([{"_change_type": "+I", **ulm()[0]}], owner=owner),
    "writer": with_writer,
    "stage": lambda table, owner: table.stage(ulm(), owner=owner, attempt=uuid.uuid4()),
    "attempt": lambda table, owner: table.upsert(ulm(), owner=owner, attempt=uuid.uuid4()),
    "end": lambda table, owner: table.end_attempt(owner=owner, attempt=uuid.uuid4(), rows=0),
}


def refuse_all(table: penstock.Table, owner: penstock.Owner) -> None:
    for write in WRITES.values():
        with pytest.raises(ConflictError, match=BETWEEN):
            write(table, owner)


def test_handle_writes_nothing_after_undo_until_it_begins(table: penstock.Table) -> None:
    owner = table.acquire_owner("job", columns=["revenue"])
    owner.begin(1)
    table.upsert(ulm(), owner=owner)
    taken = owner.token(1)
    owner.undo()

    refuse_all(table, owner)
    with pytest.raises(FencedError):
        table.upsert(ulm(), owner=taken)
    with pytest.raises(ConflictError, match="begin it"):
        owner.commit(1)
    owner.undo()
    refuse_all(table, owner)

    assert owner.begin(1) == "new"
    table.upsert(ulm(), owner=owner)
    owner.commit(1)
    assert total(table) == 10


def test_handle_writes_nothing_after_undo_of_nothing(table: penstock.Table) -> None:
    owner = table.acquire_owner("job", columns=["revenue"])
    owner.undo()

    refuse_all(table, owner)


def test_handle_writes_nothing_after_it_was_told_that_its_epoch_is_committed(table: penstock.Table) -> None:
    owner = table.acquire_owner("job", columns=["revenue"])
    owner.begin(1)
    table.upsert(ulm(), owner=owner)
    owner.commit(1)
    assert owner.begin(1) == "committed"
    refuse_all(table, owner)

    owner.begin(2)
    table.upsert(ulm(), owner=owner)
    assert owner.begin(1) == "committed"
    refuse_all(table, owner)

    assert owner.begin(2) == "new"
    table.upsert(ulm(), owner=owner)
    owner.commit(2)
    assert total(table) == 20


def test_owner_that_leaves_its_epochs_writes_outside_them(table: penstock.Table) -> None:
    owner = table.acquire_owner("job", columns=["revenue"])
    owner.begin(1)
    table.upsert(ulm(), owner=owner)
    owner.undo()

    assert owner.leave() == penstock.UndoResult()
    table.upsert(ulm(5), owner=owner)
    with pytest.raises(InvalidError, match="epoch"):
        table.stage(ulm(), owner=owner, attempt=uuid.uuid4())

    assert owner.begin(1) == "new"
    assert owner.epoch == 1
    owner.undo()
    assert total(table) == 5


def test_leaving_takes_back_what_is_open(table: penstock.Table) -> None:
    owner = table.acquire_owner("job", columns=["revenue"])
    owner.begin(1)
    table.upsert(ulm(), owner=owner)
    owner.commit(1)
    owner.begin(2)
    table.upsert(ulm(), owner=owner)
    staged = uuid.uuid4()
    table.stage(ulm(), owner=owner, attempt=staged)
    assert owner.begin(1) == "committed"

    assert owner.leave().keys == 1

    assert owner.epoch is None
    table.upsert(ulm(5), owner=owner)
    with pytest.raises(ConflictError):
        owner.commit(2, attempts=[staged])
    assert total(table) == 15


def test_owner_acquired_again_writes_nothing_beside_its_epochs(table: penstock.Table) -> None:
    first = table.acquire_owner("job", columns=["revenue"])
    first.begin(1)
    table.upsert(ulm(), owner=first)

    second = table.acquire_owner("job", columns=["revenue"])
    refuse_all(table, second)
    second.undo()
    third = table.acquire_owner("job", columns=["revenue"])
    refuse_all(table, third)
    for old in (first, second):
        with pytest.raises(FencedError):
            old.leave()

    third.leave()
    table.upsert(ulm(5), owner=third)
    assert total(table) == 5


def test_owner_that_was_released_begins_afresh(table: penstock.Table) -> None:
    owner = table.acquire_owner("job", columns=["revenue"])
    owner.begin(1)
    owner.undo()
    owner.release()
    with pytest.raises(FencedError):
        owner.leave()

    table.upsert(ulm(), owner=table.acquire_owner("job", columns=["revenue"]))

    assert total(table) == 10


def test_owner_that_has_not_begun_writes_after_a_commit_and_before_epochs(table: penstock.Table) -> None:
    owner = table.acquire_owner("job", columns=["revenue"])
    table.upsert(ulm(), owner=owner)
    owner.begin(1)
    table.upsert(ulm(), owner=owner)
    owner.commit(1)

    table.upsert(ulm(), owner=owner)

    assert total(table) == 30


def test_owner_that_undid_writes_nothing_after_a_restart(tmp_path: Path) -> None:
    with penstock.connect(tmp_path) as connection:
        table = connection.create_table("revenue", DDL, merge_engine="aggregate")
        owner = table.acquire_owner("job", columns=["revenue"])
        owner.begin(1)
        table.upsert(ulm(), owner=owner)
        owner.undo()

    with penstock.connect(tmp_path) as connection:
        table = connection.table("revenue")
        again = table.acquire_owner("job", columns=["revenue"])
        refuse_all(table, again)
        assert again.begin(1) == "new"
