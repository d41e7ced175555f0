"""A column that was added after the table was created may be left out by every writer."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import SchemaMismatchError

Rows = list[dict[str, Any]]
Write = Callable[[penstock.Table, Rows], object]


def _stage(table: penstock.Table, rows: Rows) -> None:
    attempt = uuid.uuid4()
    with table.acquire_owner("job") as owner:
        owner.begin(1)
        table.stage(rows, owner=owner, attempt=attempt)
        owner.commit(1, attempts={attempt: len(rows)})


def _in_an_epoch(table: penstock.Table, rows: Rows) -> None:
    with table.acquire_owner("job") as owner:
        owner.begin(1)
        table.upsert(rows, owner=owner)
        owner.commit(1)


def _pipelined(table: penstock.Table, rows: Rows) -> None:
    with table.writer() as writer:
        writer.upsert(pa.Table.from_pylist(rows[:1]))
        writer.upsert(pa.Table.from_pylist([row | {"note": "mine"} for row in rows[1:2]]))
        writer.upsert(pa.Table.from_pylist(rows[2:]))


def _pipelined_row_by_row(table: penstock.Table, rows: Rows) -> None:
    with table.writer() as writer:
        for row in rows:
            writer.upsert(row)


WAYS: dict[str, Write] = {
    "upsert": lambda table, rows: table.upsert(rows),
    "upsert of a batch": lambda table, rows: table.upsert(pa.RecordBatch.from_pylist(rows)),
    "apply": lambda table, rows: table.apply_changes([row | {"_change_type": "+I"} for row in rows]),
    "writer": _pipelined_row_by_row,
    "stage": _stage,
    "epoch": _in_an_epoch,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ["last_row", "first_row", "versioned"])
def test_added_column_may_be_left_out_and_is_kept_where_the_row_is(
    connection: penstock.Connection, engine: Any, way: str
) -> None:
    ddl, version = "id BIGINT, v INT, PRIMARY KEY (id)", "v" if engine == "versioned" else None
    connection.create_table("shop.t", ddl, buckets=2, merge_engine=engine, version_column=version)
    table = connection.table("shop.t").add_column("note", "STRING")
    table.upsert([{"id": 1, "v": 5, "note": "kept"}])

    WAYS[way](connection.table("shop.t"), [{"id": 1, "v": 6}, {"id": 2, "v": 7}])

    assert table.get(id=1) == {"id": 1, "v": 5 if engine == "first_row" else 6, "note": "kept"}
    assert table.get(id=2) == {"id": 2, "v": 7, "note": None}


def test_a_writer_takes_rows_with_and_without_the_added_column(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", "id BIGINT, v INT, PRIMARY KEY (id)").add_column("note", "STRING")

    _pipelined(table, [{"id": 1, "v": 1}, {"id": 2, "v": 2}, {"id": 3, "v": 3}])

    rows = table.scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["note"]) for row in rows] == [(1, None), (2, "mine"), (3, None)]


@pytest.mark.parametrize("way", ["append", "apply", "writer", "stage"])
def test_added_column_of_a_log_table_may_be_left_out(connection: penstock.Connection, way: str) -> None:
    connection.create_table("shop.log", "id BIGINT, v STRING").add_column("note", "STRING")
    table, rows = connection.table("shop.log"), [{"id": 1, "v": "a"}]

    if way == "append":
        table.append(rows)
    elif way == "apply":
        table.apply_changes([row | {"_change_type": "+A"} for row in rows])
    elif way == "writer":
        with table.writer() as writer:
            writer.append(rows)
            writer.append([{"id": 2, "v": "b", "note": "mine"}])
    else:
        _stage(table, rows)

    assert table.scan(filter="id = 1").to_arrow().to_pylist() == [{"id": 1, "v": "a", "note": None}]


def test_column_of_the_creation_is_still_asked_for_also_after_the_table_grew(connection: penstock.Connection) -> None:
    connection.create_table("shop.t", "id BIGINT, v INT, w INT, PRIMARY KEY (id)").add_column("note", "STRING")
    table = connection.table("shop.t")

    for write in (
        lambda: table.upsert([{"id": 1, "v": 1}]),
        lambda: table.apply_changes([{"id": 1, "v": 1, "_change_type": "+I"}]),
        lambda: _stage(table, [{"id": 1, "v": 1}]),
    ):
        with pytest.raises(SchemaMismatchError, match=r"columns=\[\.\.\.\]") as refused:
            write()
        assert refused.value.facts["column"] == "w"
    assert table.scan().to_arrow().num_rows == 0


def test_a_table_of_its_key_alone_takes_rows_without_the_added_column(connection: penstock.Connection) -> None:
    connection.create_table("shop.t", "id BIGINT, PRIMARY KEY (id)").add_column("note", "STRING")
    table = connection.table("shop.t")
    table.upsert([{"id": 1, "note": "kept"}, {"id": 4, "note": "kept"}])

    table.upsert([{"id": 1}, {"id": 2}])
    _stage(table, [{"id": 4}, {"id": 3}])

    rows = table.scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["note"]) for row in rows] == [(1, "kept"), (2, None), (3, None), (4, "kept")]


def test_undo_leaves_what_others_wrote_in_a_column_that_was_left_out(connection: penstock.Connection) -> None:
    connection.create_table("shop.t", "id BIGINT, v INT, PRIMARY KEY (id)")
    table = connection.table("shop.t").add_column("note", "STRING")
    table.upsert([{"id": 1, "v": 1, "note": "old"}])

    with table.acquire_owner("job") as owner:
        owner.begin(1)
        table.upsert([{"id": 1, "v": 2}], owner=owner)
        table.upsert([{"id": 1, "note": "new"}], columns=["note"])
        owner.undo()

    assert table.get(id=1) == {"id": 1, "v": 1, "note": "new"}


def test_which_columns_are_of_the_creation_is_known_after_the_node_was_opened_again(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        connection.create_database("shop")
        connection.create_table("shop.t", "id BIGINT, v INT, PRIMARY KEY (id)").add_column("note", "STRING")

    with penstock.connect(tmp_path / "data") as connection:
        table = connection.table("shop.t")
        table.upsert([{"id": 1, "v": 1}])
        with pytest.raises(SchemaMismatchError) as refused:
            table.upsert([{"id": 1, "note": "x"}])
    assert refused.value.facts["column"] == "v"


def test_table_created_like_another_has_all_columns_by_its_creation(connection: penstock.Connection) -> None:
    connection.create_table("shop.t", "id BIGINT, v INT, PRIMARY KEY (id)").add_column("note", "STRING")
    like = connection.create_table("shop.like", connection.table("shop.t").info.schema)

    with pytest.raises(SchemaMismatchError) as refused:
        like.upsert([{"id": 1, "v": 1}])
    assert refused.value.facts["column"] == "note"


def test_aggregates_take_nothing_from_a_column_that_was_left_out(connection: penstock.Connection) -> None:
    connection.create_table("shop.t", "k BIGINT, n BIGINT SUM, PRIMARY KEY (k)").add_column(
        "opened", "STRING", agg="first_value"
    )
    table = connection.table("shop.t")
    table.upsert([{"k": 1, "n": 1, "opened": "monday"}])

    table.upsert([{"k": 1, "n": 2}, {"k": 2, "n": 5}])
    table.apply_changes([{"k": 2, "n": 1, "_change_type": "-D"}])

    assert table.get(k=1) == {"k": 1, "n": 3, "opened": "monday"}
    assert table.get(k=2) == {"k": 2, "n": 4, "opened": None}
