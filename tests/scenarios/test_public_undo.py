"""After an undo a table is what it would be if the undone owner had never written, embedded and against a server."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

import penstock
from penstock.errors import InvalidError, LockedError

SUMS = "k BIGINT, a BIGINT SUM, b BIGINT SUM, x BIGINT SUM, PRIMARY KEY (k)"
PLAIN = "k BIGINT, a BIGINT, b BIGINT, x BIGINT, PRIMARY KEY (k)"
LOCKS = {"column-lock.enabled": "true", "delete.behavior": "allow"}


@pytest.fixture(params=["sums", "last row", "last row without locks"])
def table(request: pytest.FixtureRequest, connection: penstock.Connection) -> penstock.Table:
    if request.param == "sums":
        return connection.create_table("shop.t", SUMS, merge_engine="aggregate", properties=LOCKS)
    properties = None if "without" in request.param else LOCKS
    return connection.create_table("shop.t", PLAIN, properties=properties)


def row(k: int, **values: int | None) -> dict[str, Any]:
    return {"k": k, "a": None, "b": None, "x": None} | values


def rows(table: penstock.Table) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda found: found["k"])


def begin(table: penstock.Table, column: str, epoch: int = 1) -> penstock.Owner:
    owner = table.acquire_owner(f"job-{column}", columns=[column])
    owner.begin(epoch)
    return owner


def test_null_that_would_have_made_a_row_keeps_it_when_its_maker_is_undone(table: penstock.Table) -> None:
    left, right = begin(table, "a"), begin(table, "b")
    table.upsert([{"k": 1, "a": 5}, {"k": 2, "a": 5}], columns=["a"], owner=left)

    table.upsert([{"k": 1, "b": None}], columns=["b"], owner=right)
    table.upsert([{"k": 2, "x": None}], columns=["x"])
    right.commit(1)
    left.undo()

    assert rows(table) == [row(1), row(2)]


def test_staged_null_keeps_a_row_when_its_maker_is_undone(table: penstock.Table) -> None:
    left, right = begin(table, "a"), begin(table, "b")
    attempt = uuid.uuid4()
    table.stage([{"k": 1, "b": None}], columns=["b"], owner=right, attempt=attempt)
    table.upsert([{"k": 1, "a": 5}], columns=["a"], owner=left)

    right.commit(1, attempts={attempt: 1})
    left.undo()

    assert rows(table) == [row(1)]


def test_row_stands_on_what_others_wrote_before_an_owner_that_is_undone_last(table: penstock.Table) -> None:
    left, right = begin(table, "a"), begin(table, "b")
    table.upsert([{"k": 1, "a": 1}], columns=["a"], owner=left)
    table.upsert([{"k": 1, "x": 7}], columns=["x"])
    table.upsert([{"k": 1, "b": 2}], columns=["b"], owner=right)

    left.undo()
    right.undo()

    assert rows(table) == [row(1, x=7)]


def test_deleted_row_comes_back_whole_whoever_is_undone_first(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", PLAIN, properties=LOCKS)
    table.upsert([row(1, a=1, b=2, x=3)])
    left = begin(table, "a")
    table.delete([{"k": 1}], owner=left)
    right = begin(table, "b")
    table.upsert([{"k": 1, "b": 9}], columns=["b"], owner=right)

    left.undo()
    assert rows(table) == [row(1, a=1, b=9, x=3)]
    right.undo()

    assert rows(table) == [row(1, a=1, b=2, x=3)]


def test_clear_is_refused_where_a_row_stays_only_for_what_may_be_undone(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", PLAIN, properties=LOCKS)
    table.upsert([row(1, x=3), row(2, x=3), row(3, a=1, b=2, x=3)])
    left = begin(table, "a")
    table.upsert([{"k": 1, "a": 5}], columns=["a"], owner=left)

    with pytest.raises(LockedError):
        table.delete([{"k": 1}], columns=["x"])
    table.delete([{"k": 3}], columns=["x"])
    left.release()

    table.delete([{"k": 1}], columns=["x"])
    assert rows(table) == [row(2, x=3), row(3, a=1, b=2)]


def test_clear_of_a_row_that_an_epoch_deleted_is_refused(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", PLAIN, properties=LOCKS)
    table.upsert([row(1, a=1, b=2)])
    left = begin(table, "a")
    table.delete([{"k": 1}], owner=left)

    with pytest.raises(LockedError):
        table.delete([{"k": 1}], columns=["b"])
    table.delete([{"k": 2}], columns=["b"])
    left.undo()

    assert rows(table) == [row(1, a=1, b=2)]


def test_value_written_again_without_locks_stays_when_its_first_writer_is_undone(
    connection: penstock.Connection,
) -> None:
    table = connection.create_table("shop.t", PLAIN)
    table.upsert([row(1, a=1)])
    left = begin(table, "a")
    table.upsert([{"k": 1, "a": 5}], columns=["a"], owner=left)

    table.upsert([{"k": 1, "a": 5}], columns=["a"])
    left.undo()

    assert rows(table) == [row(1, a=5)]


def test_write_that_changes_nothing_is_no_change_beside_committed_epochs(table: penstock.Table) -> None:
    left = begin(table, "a")
    table.upsert([{"k": 1, "a": 5}], columns=["a"], owner=left)
    left.commit(1)
    left.begin(2)
    table.upsert([{"k": 2, "a": 5}], columns=["a"], owner=left)

    assert table.upsert([{"k": 1, "x": None}], columns=["x"]).changes == 0
    assert table.upsert([{"k": 2, "x": None}], columns=["x"]).changes == 1
    assert table.upsert([{"k": 2, "x": None}], columns=["x"]).changes == 1


def test_owner_of_a_first_value_holds_every_column(connection: penstock.Connection) -> None:
    ddl = "k BIGINT, a BIGINT FIRST_VALUE, b BIGINT SUM, PRIMARY KEY (k)"
    table = connection.create_table("shop.t", ddl, merge_engine="aggregate")

    owner = table.acquire_owner("job", columns=["a"])

    assert owner.columns == ("a", "b")
    with pytest.raises(LockedError):
        table.upsert([{"k": 1, "b": 1}], columns=["b"])


def test_owner_that_names_every_column_deletes_in_an_epoch(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SUMS, merge_engine="aggregate", properties=LOCKS)
    table.upsert([row(1, a=1, b=2)])
    some = table.acquire_owner("job", columns=["a", "b"])
    some.begin(1)
    with pytest.raises(InvalidError, match="every column"):
        table.delete([{"k": 1}], owner=some)

    owner = table.acquire_owner("job", columns=["a", "b", "x"])
    owner.begin(1)
    table.delete([{"k": 1}], owner=owner)
    assert rows(table) == []
    owner.undo()
    assert rows(table) == [row(1, a=1, b=2)]

    owner.begin(1)
    table.delete([{"k": 1}], columns=["a", "b"], owner=owner)
    owner.commit(1)
    assert rows(table) == []
