"""Writing, as users meet it: what a call returns, what it leaves, what it refuses."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock.errors import (
    DeleteDisabledError,
    InvalidError,
    SchemaMismatchError,
    UnsupportedError,
)

DDL = "id BIGINT, name STRING, amount DOUBLE, PRIMARY KEY (id)"


@pytest.fixture
def orders(connection: penstock.Connection) -> penstock.Table:
    return connection.create_table("shop.orders", DDL, buckets=3)


def contents(table: penstock.Table) -> dict[int, tuple[Any, ...]]:
    rows = table.scan().to_arrow().to_pylist()
    found = {row.pop("id"): tuple(row.values()) for row in rows}
    assert len(found) == len(rows)
    return found


def test_a_result_says_what_happened_and_where(orders: penstock.Table) -> None:
    result = orders.upsert([{"id": n, "name": "a", "amount": 1.0} for n in range(10)])

    assert (result.rows, result.changes, result.ignored) == (10, 10, 0)
    assert sum(end - start for start, end in result.offsets.values()) == 10
    assert {bucket: end for bucket, (_, end) in result.offsets.items()} == {
        bucket: end for bucket, end in orders.cut().items() if end
    }
    assert all(isinstance(bucket, penstock.TableBucket) for bucket in result.offsets)


def test_data_comes_in_every_form(orders: penstock.Table) -> None:
    arrow = pa.table({"id": [1, 2], "name": ["a", "b"], "amount": [1.0, 2.0]})
    forms: list[Any] = [
        arrow,
        arrow.to_batches()[0],
        arrow.to_reader(),
        arrow.to_pandas(),
        pl.from_arrow(arrow),
        arrow.to_pylist(),
        arrow.to_pydict(),
        arrow.select(["amount", "id", "name"]),
        arrow.set_column(0, "id", pa.array([1, 2], pa.int32())),
    ]

    for form in forms:
        orders.truncate()
        assert orders.upsert(form).rows == 2
        assert contents(orders) == {1: ("a", 1.0), 2: ("b", 2.0)}


def test_an_empty_write_changes_nothing(orders: penstock.Table) -> None:
    forms: list[Any] = [[], pd.DataFrame({"id": [], "name": [], "amount": []}), orders.schema.empty_table()]
    for data in forms:
        result = orders.upsert(data)
        assert (result.rows, result.changes, result.offsets) == (0, 0, {})


def test_the_last_of_several_rows_of_a_key_stays_and_each_is_a_change(orders: penstock.Table) -> None:
    result = orders.upsert([{"id": 1, "name": name, "amount": 0.0} for name in "abc"])

    assert result.changes == 3
    assert contents(orders) == {1: ("c", 0.0)}


def test_a_partial_update_leaves_other_columns_alone(orders: penstock.Table) -> None:
    orders.upsert([{"id": 1, "name": "a", "amount": 1.0}])

    changed = orders.upsert([{"id": 1, "amount": 2.0}, {"id": 2, "amount": 5.0}], columns=["amount"])
    again = orders.upsert([{"id": 1, "amount": 2.0}], columns=["id", "amount"])

    assert contents(orders) == {1: ("a", 2.0), 2: (None, 5.0)}
    assert (changed.changes, again.changes, again.ignored) == (2, 0, 1)


def test_deletes_take_keys_in_every_form(orders: penstock.Table) -> None:
    for keys in (
        [1, 2],
        [{"id": 1}, {"id": 2}],
        {"id": [1, 2]},
        pa.table({"id": [1, 2]}),
        pd.DataFrame({"id": [1, 2]}),
    ):
        orders.upsert([{"id": n, "name": "a", "amount": 1.0} for n in range(4)])
        result = orders.delete(keys)
        assert (result.rows, result.changes) == (2, 2)
        assert sorted(contents(orders)) == [0, 3]
    assert orders.delete([77]).changes == 0


def test_deleting_columns_nulls_them_and_deletes_a_row_when_none_is_left(orders: penstock.Table) -> None:
    orders.upsert([{"id": 1, "name": "a", "amount": 1.0}, {"id": 2, "name": None, "amount": 1.0}])

    result = orders.delete([1, 2], columns=["amount"])

    assert result.changes == 2
    assert contents(orders) == {1: ("a", None)}
    with pytest.raises(InvalidError, match="names columns outside the key"):
        orders.delete([1], columns=["id"])


def test_delete_where_deletes_what_matches(orders: penstock.Table) -> None:
    orders.upsert([{"id": n, "name": "a", "amount": None if n == 3 else float(n)} for n in range(10)])

    assert orders.delete_where(penstock.col("amount") >= 5).changes == 5
    assert orders.delete_where("amount IS NULL").changes == 1
    assert sorted(contents(orders)) == [0, 1, 2, 4]
    with pytest.raises(InvalidError):
        orders.delete_where("amount >")


def test_truncate_deletes_all_rows_in_the_changelog(orders: penstock.Table) -> None:
    orders.upsert([{"id": n, "name": "a", "amount": 1.0} for n in range(10)])
    cut = orders.cut()

    assert orders.truncate().changes == 10
    assert contents(orders) == {}
    kinds = [kind for batch in orders.changes(start=cut) for kind in batch.column("_change_type").to_pylist()]
    assert kinds == ["-D"] * 10


@pytest.mark.parametrize(
    ("data", "columns", "message"),
    [
        ([{"id": 1, "name": "a"}], None, r"missing .* or pass columns=\[...\] .*column=amount"),
        ([{"id": 1, "name": "a", "amount": 1.0, "x": 1}], None, "no such column.*column=x"),
        ([{"id": 1, "name": "a", "amount": 1.0}, {"id": None, "name": "a", "amount": 1.0}], None, "column=id row=1"),
        ([{"id": 1, "name": 5, "amount": 1.0}], None, "does not fit its column.*column=name row=0"),
        ([{"id": 1.5, "name": "a", "amount": 1.0}], None, "column=id row=0"),
        ([{"id": 1, "amount": 1.0}], ["nope"], "no such column.*column=nope"),
        ({"id": ["1"], "name": ["a"], "amount": [1.0]}, None, "column=id row=0"),
        (pa.table({"id": [2**40], "name": [b"a"], "amount": [1.0]}), None, "column=name type=binary wanted=string"),
    ],
)
def test_a_wrong_row_is_named_and_nothing_is_written(
    orders: penstock.Table, data: Any, columns: list[str] | None, message: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        orders.upsert(data, columns=columns)
    assert set(orders.cut().values()) == {0}


def test_delete_where_a_filter_names_no_column_deletes_all_or_nothing(orders: penstock.Table) -> None:
    orders.upsert([{"id": number, "name": "a", "amount": 1.0} for number in range(5)])

    assert orders.delete_where("1 = 0").changes == 0
    assert orders.delete_where("1 = 1").changes == 5


def test_first_row_keeps_the_first(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", DDL, merge_engine="first_row")

    first = table.upsert([{"id": 1, "name": "a", "amount": 1.0}, {"id": 1, "name": "b", "amount": 1.0}])
    second = table.upsert([{"id": 1, "name": "c", "amount": 1.0}])

    assert (first.changes, first.ignored, second.changes, second.ignored) == (1, 1, 0, 1)
    assert contents(table) == {1: ("a", 1.0)}
    assert table.delete([1]).ignored == 1
    with pytest.raises(UnsupportedError, match="takes whole rows only"):
        table.upsert([{"id": 1, "amount": 1.0}], columns=["amount"])


def test_log_table_takes_whole_rows_and_lives_on_where_some_columns_are_named(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.log", "id INT, name STRING")

    with pytest.raises(UnsupportedError, match="a log table takes whole rows only; leave out columns="):
        table.apply_changes([{"_change_type": "+A", "id": 1}], columns=["id"])
    with table.acquire_owner("job") as owner:
        owner.begin(1)
        with pytest.raises(UnsupportedError, match="takes whole rows only"):
            table.stage(
                [{"_change_type": "+A", "id": 1}], owner=owner, attempt=uuid.uuid4(), columns=["id"], changes=True
            )
    table.append([{"id": 2, "name": "b"}])

    assert table.scan().to_arrow().to_pylist() == [{"id": 2, "name": "b"}]


def test_versioned_keeps_the_greatest_version(connection: penstock.Connection) -> None:
    table = connection.create_table(
        "shop.t", "id INT, v BIGINT, name STRING, PRIMARY KEY (id)", merge_engine="versioned", version_column="v"
    )

    table.upsert([{"id": 1, "v": 5, "name": "five"}])
    table.upsert([{"id": 1, "v": 4, "name": "four"}, {"id": 1, "v": None, "name": "none"}])
    assert table.get(id=1) == {"id": 1, "v": 5, "name": "five"}
    table.upsert([{"id": 1, "v": 5, "name": "five again"}])
    assert table.get(id=1) == {"id": 1, "v": 5, "name": "five again"}


@pytest.mark.parametrize("verb", ["delete", "delete_where", "truncate", "apply_changes"])
def test_a_table_may_disable_deletes(connection: penstock.Connection, verb: str) -> None:
    table = connection.create_table("shop.t", DDL, properties={"delete.behavior": "disable"})
    table.upsert([{"id": 1, "name": "a", "amount": 1.0}])
    calls: dict[str, Callable[[], object]] = {
        "delete": lambda: table.delete([1]),
        "delete_where": lambda: table.delete_where("id = 1"),
        "truncate": table.truncate,
        "apply_changes": lambda: table.apply_changes([{"id": 1, "name": "a", "amount": 1.0, "_change_type": "-D"}]),
    }

    with pytest.raises(DeleteDisabledError, match=r"disabled on this table by its delete.behavior table=shop.t"):
        calls[verb]()
    assert len(contents(table)) == 1


def test_a_table_may_ignore_deletes(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", DDL, properties={"delete.behavior": "ignore"})
    table.upsert([{"id": 1, "name": "a", "amount": 1.0}])

    result = table.delete([1])

    assert (result.rows, result.changes, result.ignored) == (1, 0, 1)
    assert len(contents(table)) == 1


def test_what_a_changelog_emits_can_be_applied(connection: penstock.Connection, orders: penstock.Table) -> None:
    orders.upsert([{"id": n, "name": "a", "amount": 1.0} for n in range(10)])
    orders.upsert([{"id": n, "name": "b", "amount": None} for n in range(5)])
    orders.delete([0, 9])
    copy = connection.create_table("shop.copy", DDL, buckets=2)

    for batch in orders.changes():
        copy.apply_changes(batch)

    assert contents(copy) == contents(orders)
    with pytest.raises(InvalidError, match="no such change type"):
        copy.apply_changes([{"id": 1, "name": "a", "amount": 1.0, "_change_type": "?"}])


def test_log_tables_take_appends_only(connection: penstock.Connection, orders: penstock.Table) -> None:
    log = connection.create_table("shop.log", "at BIGINT, what STRING", buckets=2)

    result = log.append([{"at": 1, "what": "x"}, {"at": 1, "what": "x"}])

    assert (result.rows, result.changes) == (2, 2)
    refused: list[Callable[[], object]] = [
        lambda: log.upsert([]),
        lambda: log.delete([]),
        lambda: log.delete_where("at = 1"),
    ]
    for call in refused:
        with pytest.raises(UnsupportedError, match="primary key"):
            call()
    with pytest.raises(UnsupportedError, match="only log tables take appends; use upsert"):
        orders.append([{"id": 1, "name": "a", "amount": 1.0}])


def test_every_type_comes_back_as_it_went_in(connection: penstock.Connection) -> None:
    import datetime as dt

    table = connection.create_table(
        "shop.types",
        """id BIGINT, flag BOOLEAN, tiny TINYINT, small SMALLINT, mid INT, single FLOAT, twice DOUBLE,
        price DECIMAL(38, 10), words STRING, long_words LARGE_STRING, raw BINARY, day DATE, at TIMESTAMP,
        at_local TIMESTAMP_NTZ, tags ARRAY<STRING>, inner STRUCT<a: INT, b: ARRAY<DOUBLE>>, pairs MAP<STRING, BIGINT>,
        PRIMARY KEY (id)""",
    )
    row = {
        "id": 1,
        "flag": True,
        "tiny": -128,
        "small": 32767,
        "mid": -(2**31),
        "single": 0.5,
        "twice": 1e300,
        "price": Decimal("1234567890123456789012345678.0123456789"),
        "words": "grüße ☂",
        "long_words": "x" * 1_000,
        "raw": b"\x00\xff",
        "day": dt.date(1969, 12, 31),
        "at": dt.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=dt.UTC),
        "at_local": dt.datetime(1900, 1, 1),
        "tags": ["a", None, ""],
        "inner": {"a": None, "b": [1.0]},
        "pairs": [("k", 1), ("l", None)],
    }
    empty = dict.fromkeys(row) | {"id": 2}

    table.upsert([row, empty])

    assert table.get(id=1) == row
    assert table.get(id=2) == empty
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda found: found["id"]) == [row, empty]
    assert [found["price"] for batch in table.changes() for found in batch.to_pylist()] == [row["price"], None]


def test_a_writer_pipelines_and_loses_nothing(orders: penstock.Table) -> None:
    with orders.writer(batch_rows=500) as writer:
        for start in range(0, 10_000, 100):
            writer.upsert(pa.table({"id": range(start, start + 100), "name": ["x"] * 100, "amount": [0.0] * 100}))
        writer.delete(list(range(5_000, 10_000)))
        for n in range(100):
            writer.upsert({"id": n, "name": "single", "amount": 1.0})
        writer.flush()
        assert writer.acknowledged_rows == 15_100

    found = contents(orders)
    assert sorted(found) == list(range(5_000))
    assert sum(row == ("single", 1.0) for row in found.values()) == 100


def test_many_threads_write_through_one_connection(orders: penstock.Table) -> None:
    failures: list[BaseException] = []

    def write(worker: int) -> None:
        try:
            for n in range(30):
                orders.upsert([{"id": worker * 100 + n, "name": str(worker), "amount": float(n)}])
        except penstock.PenstockError as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert failures == []
    assert len(contents(orders)) == 240
    assert sum(orders.cut().values()) == 240


def test_a_call_over_many_buckets_is_never_seen_in_part(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.pairs", "id INT, round INT, PRIMARY KEY (id)", buckets=4)
    table.upsert([{"id": n, "round": 0} for n in range(16)])
    stop = threading.Event()

    def write() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            table.upsert([{"id": n, "round": turn} for n in range(16)])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(50):
            rounds = table.scan(columns=["round"]).to_arrow()["round"].to_pylist()
            assert len(rounds) == 16
            assert len(set(rounds)) == 1
    finally:
        stop.set()
        thread.join(60)


def test_changes_of_some_columns_are_applied_beside_the_others(connection: penstock.Connection) -> None:
    ddl = "id BIGINT, total BIGINT SUM, n BIGINT COUNT, top BIGINT MAX, PRIMARY KEY (id)"
    sums = connection.create_table("sums", ddl, merge_engine="aggregate")
    rows = connection.create_table("rows", "id BIGINT, a BIGINT, b BIGINT, PRIMARY KEY (id)")
    sums.upsert([{"id": 1, "total": 5, "n": 1, "top": 9}])
    rows.upsert([{"id": 1, "a": 1, "b": 1}, {"id": 2, "a": 2, "b": 2}])

    sums.apply_changes([{"id": 1, "total": 5, "_change_type": "-U"}, {"id": 1, "total": 7, "_change_type": "+U"}])
    changes = [{"id": 1, "a": 5, "_change_type": "+U"}, {"id": 2, "a": 2, "_change_type": "-D"}]
    rows.apply_changes(changes, columns=["a"])

    assert sums.scan().to_arrow().to_pylist() == [{"id": 1, "total": 7, "n": 1, "top": 9}]
    assert rows.scan().to_arrow().to_pylist() == [{"id": 1, "a": 5, "b": 1}]
    with pytest.raises(SchemaMismatchError, match="column=b"):
        rows.apply_changes(changes)
