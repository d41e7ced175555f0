"""Lists of columns are lists, name a column once, and any column may be part of a key, embedded and served."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import InvalidError, InvalidScanRequestError

ROW = {"id": 1, "v": 1}
CHANGE = {"_change_type": "+I", **ROW}


def written(table: penstock.Table, columns: Any, row: object) -> None:
    with table.writer() as writer:
        writer.upsert(row, columns=columns)


def cleared(table: penstock.Table, columns: Any) -> None:
    with table.writer() as writer:
        writer.delete([{"id": 1}], columns=columns)


def staged(table: penstock.Table, columns: Any, *, changes: bool) -> None:
    with table.acquire_owner(None) as owner:
        owner.begin(1)
        table.stage([CHANGE if changes else ROW], columns=columns, owner=owner, attempt=uuid.uuid4(), changes=changes)


USES: dict[str, Callable[[penstock.Connection, penstock.Table, Any], object]] = {
    "upsert": lambda _, t, c: t.upsert([ROW], columns=c),
    "delete": lambda _, t, c: t.delete([{"id": 1}], columns=c),
    "apply": lambda _, t, c: t.apply_changes([CHANGE], columns=c),
    "writer": lambda _, t, c: written(t, c, [ROW]),
    "writer of a row": lambda _, t, c: written(t, c, ROW),
    "writer delete": lambda _, t, c: cleared(t, c),
    "stage": lambda _, t, c: staged(t, c, changes=False),
    "stage changes": lambda _, t, c: staged(t, c, changes=True),
    "scan": lambda _, t, c: t.scan(columns=c),
    "select": lambda _, t, c: t.new_scan().select(c).execute(),
    "changes": lambda _, t, c: t.changes(columns=c),
    "follow": lambda _, t, c: t.snapshot_and_follow(columns=c),
    "lookup": lambda _, t, c: t.lookup([{"id": 1}], columns=c),
    "scanner": lambda conn, t, c: conn.scanner(t, 0, columns=c),
    "owner": lambda _, t, c: t.acquire_owner("job", columns=c),
}


@pytest.mark.parametrize("columns", ["v", b"v", ["v", "v"], ("v", "w", "v"), 7])
def test_columns_are_a_list_that_names_each_once(connection: penstock.Connection, columns: Any) -> None:
    table = connection.create_table("shop.t", "id BIGINT, v BIGINT, w BIGINT, PRIMARY KEY (id)")
    table.upsert([{"id": 1, "v": 5, "w": 5}])

    for name, use in USES.items():
        print(name)
        with pytest.raises(InvalidError):
            use(connection, table, columns)

    assert table.get(id=1) == {"id": 1, "v": 5, "w": 5}
    assert not [owner for owner in connection.list_owners() if owner.held]


@pytest.mark.parametrize("name", ["self", "key", "prefix", "columns", "cls"])
def test_key_column_may_have_any_name(connection: penstock.Connection, name: str) -> None:
    schema = pa.schema([(name, pa.int64()), ("n", pa.int64()), ("v", pa.int64())])
    table = connection.create_table("shop.t", schema, primary_key=[name, "n"])
    alone = connection.create_table("shop.alone", schema, primary_key=[name])
    row = {name: 1, "n": 2, "v": 3}
    for each in (table, alone):
        each.upsert([row])

    assert table.get(**{name: 1, "n": 2}) == row
    assert alone.get(**{name: 1}) == row
    assert table.prefix_lookup(**{name: 1}).to_pylist() == [row]


@pytest.mark.parametrize("number", [True, False, 1.0, "1", None])
def test_page_is_asked_for_by_number(connection: penstock.Connection, number: Any) -> None:
    table = connection.create_table("shop.t", "id BIGINT, PRIMARY KEY (id)")
    table.upsert([{"id": number} for number in range(10)])
    with connection.scanner(table, 0, page_bytes=1) as scanner:
        scanner.open()
        with pytest.raises(InvalidScanRequestError, match="number"):
            scanner.next(number)
        assert scanner.next(1).batch.num_rows


@pytest.mark.parametrize("schema", ["", pa.schema([])])
def test_table_has_a_column(connection: penstock.Connection, schema: Any) -> None:
    with pytest.raises(InvalidError):
        connection.create_table("shop.t", schema)

    assert connection.list_tables("shop") == []


def test_owner_without_an_id_gets_one(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", "id BIGINT, v BIGINT, w BIGINT, PRIMARY KEY (id)")

    with table.acquire_owner(None, columns=["v"]) as owner, table.acquire_owner(None, columns=["w"]) as other:
        assert owner.id != other.id
        assert {info.owner for info in connection.list_owners()} == {owner.id, other.id}
