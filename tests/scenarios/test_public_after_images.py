"""An aggregate takes values back only from whoever says which, embedded and against a server."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

import penstock
from penstock.errors import UnsupportedError

DDL = "city STRING, revenue BIGINT SUM, visits BIGINT SUM, PRIMARY KEY (city)"
MATCH = "deletes .-D. without the rows before"


@pytest.fixture
def table(connection: penstock.Connection) -> penstock.Table:
    table = connection.create_table("shop.revenue", DDL, merge_engine="aggregate")
    table.upsert([{"city": "Ulm", "revenue": 5, "visits": 1}])
    return table


def change(kind: str, city: str, **values: int | None) -> dict[str, Any]:
    return {"_change_type": kind, "city": city, **values}


def ulm(table: penstock.Table) -> dict[str, Any] | None:
    return table.get(city="Ulm")


WITHOUT: list[list[dict[str, Any]]] = [
    [change("-D", "Ulm")],
    [change("-D", "Ulm", revenue=None, visits=None)],
    [change("+I", "Bonn", revenue=1, visits=1), change("-D", "Ulm", revenue=None, visits=None)],
]


@pytest.mark.parametrize("changes", WITHOUT)
def test_delete_without_its_row_is_refused(table: penstock.Table, changes: list[dict[str, Any]]) -> None:
    owner = table.acquire_owner("job")
    with pytest.raises(UnsupportedError, match=MATCH):
        table.apply_changes(changes, owner=owner)
    owner.begin(1)
    with pytest.raises(UnsupportedError, match=MATCH):
        table.apply_changes(changes, owner=owner.token(1), attempt=uuid.uuid4())
    with pytest.raises(UnsupportedError, match=MATCH):
        table.stage(changes, owner=owner, attempt=uuid.uuid4(), changes=True)
    owner.release()
    with pytest.raises(UnsupportedError, match=MATCH):
        table.apply_changes(changes)
    with pytest.raises(UnsupportedError, match=MATCH):
        table.apply_changes([change("-D", "Ulm", revenue=None)], columns=["revenue"])

    assert table.scan().to_arrow().to_pylist() == [{"city": "Ulm", "revenue": 5, "visits": 1}]


def test_stream_of_after_images_is_refused_where_it_takes_something_back(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    orders = connection.create_table("shop.orders", "city STRING, revenue BIGINT, visits BIGINT, PRIMARY KEY (city)")
    orders.upsert([{"city": "Ulm", "revenue": 5, "visits": 1}])
    orders.delete([{"city": "Ulm"}])
    fold = connection.create_table("shop.fold", DDL, merge_engine="aggregate")

    (after,) = orders.changes(images="after")
    with pytest.raises(UnsupportedError, match=MATCH):
        fold.apply_changes(after)
    assert fold.scan().to_arrow().num_rows == 0
    for batch in orders.changes(images="full"):
        fold.apply_changes(batch)
    assert fold.scan().to_arrow().to_pylist() == [{"city": "Ulm", "revenue": 0, "visits": 0}]


def test_delete_takes_back_what_its_row_says(table: penstock.Table) -> None:
    table.apply_changes([change("-D", "Ulm", revenue=2, visits=None)])
    assert ulm(table) == {"city": "Ulm", "revenue": 3, "visits": 1}

    # Rows that had no values, among others that had.
    table.apply_changes([change("-D", "Bonn", revenue=None, visits=None), change("-D", "Ulm", revenue=1, visits=1)])
    assert table.scan().to_arrow().to_pylist() == [{"city": "Ulm", "revenue": 2, "visits": 0}]


def test_tables_that_keep_rows_take_deletes_by_their_keys(connection: penstock.Connection) -> None:
    orders = connection.create_table("shop.orders", "city STRING, revenue BIGINT, PRIMARY KEY (city)")
    orders.upsert([{"city": "Ulm", "revenue": 5}])

    orders.apply_changes([change("-D", "Ulm", revenue=None)])

    assert orders.scan().to_arrow().num_rows == 0
