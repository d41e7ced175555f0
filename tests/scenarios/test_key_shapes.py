"""Keys and rows as users have them at hand: one value, tuples, generators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock.errors import InvalidError


@pytest.fixture
def plain(connection: penstock.Connection) -> penstock.Table:
    table = connection.create_table("shop.plain", "id BIGINT, n BIGINT, PRIMARY KEY (id)", buckets=2)
    table.upsert({"id": number, "n": number} for number in range(10))
    return table


@pytest.fixture
def pairs(connection: penstock.Connection) -> penstock.Table:
    table = connection.create_table("shop.pairs", "city STRING, day INT, n BIGINT, PRIMARY KEY (city, day)")
    table.upsert({"city": city, "day": day, "n": 1} for city in ("Ulm", "Bonn") for day in range(3))
    return table


@pytest.mark.parametrize(
    "keys",
    [
        [2, 3],
        (2, 3),
        [(2,), (3,)],
        range(2, 4),
        lambda: (key for key in (2, 3)),
        {2: "a", 3: "b"}.keys(),
        np.array([2, 3]),
        pd.Series([2, 3]),
        pl.Series([2, 3]),
        pa.array([2, 3]),
        [{"id": 2}, {"id": 3}],
        lambda: ({"id": key} for key in (2, 3)),
        {"id": [2, 3]},
        pd.DataFrame({"id": [2, 3]}),
    ],
    ids=lambda keys: type(keys).__module__.partition(".")[0] + "." + type(keys).__name__,
)
def test_keys_of_one_column_come_in_every_shape(keys: Any, plain: penstock.Table) -> None:
    assert plain.lookup(keys() if callable(keys) else keys)["n"].to_pylist() == [2, 3]
    assert plain.delete(keys() if callable(keys) else keys).changes == 2


def test_one_key_is_a_value(plain: penstock.Table, connection: penstock.Connection) -> None:
    assert plain.lookup(5)["n"].to_pylist() == [5]
    assert plain.lookup(np.int64(5), offsets=True)["_found"].to_pylist() == [True]
    assert plain.lookup({"id": 5})["n"].to_pylist() == [5]
    assert plain.delete(2).changes == 1
    assert plain.delete(2).changes == 0
    assert plain.delete(3, expect=[plain.lookup(3, offsets=True)["_offset"][0].as_py()]).changes == 1
    words = connection.create_table("shop.words", "word STRING, n INT, PRIMARY KEY (word)")
    words.upsert({"word": "abc", "n": 1})
    assert words.lookup("abc")["n"].to_pylist() == [1]
    assert words.delete({"abc"}).changes == 1


def test_composite_keys_are_tuples(pairs: penstock.Table) -> None:
    assert pairs.lookup(("Ulm", 1))["_found"].to_pylist() == [True]
    assert pairs.lookup([("Ulm", 1), ("Rome", 1)])["_found"].to_pylist() == [True, False]
    assert pairs.lookup([["Ulm", 1]])["_found"].to_pylist() == [True]
    assert pairs.delete((("Ulm", 1), ("Bonn", 2))).changes == 2
    assert pairs.delete(("Bonn", 1)).changes == 1
    assert pairs.delete({("Ulm", 0)}).changes == 1


@pytest.mark.parametrize("keys", ["Ulm", 3, ["Ulm", "Bonn"], ("Ulm",), [("Ulm", 1, 2)], [("Ulm", 1), "Bonn"]])
def test_a_key_that_lacks_columns_says_what_is_taken(keys: Any, pairs: penstock.Table) -> None:
    with pytest.raises(InvalidError, match="pass a tuple of them"):
        pairs.lookup(keys)
    with pytest.raises(InvalidError, match="pass a tuple of them"):
        pairs.delete(keys)
    assert pairs.scan().to_arrow().num_rows == 6


def test_what_is_no_key_or_row_is_refused(plain: penstock.Table) -> None:
    for wrong in (object(), None):
        with pytest.raises(InvalidError, match="a list or generator of dicts"):
            plain.lookup(wrong)
    with pytest.raises(InvalidError, match="holds dicts"):
        plain.upsert(iter([1, 2]))
    with pytest.raises(InvalidError, match="type=int"):
        plain.upsert(5)


def test_rows_come_from_a_generator_everywhere(connection: penstock.Connection) -> None:
    log = connection.create_table("shop.log", "id BIGINT")
    table = connection.create_table("shop.t", "id BIGINT, n BIGINT, PRIMARY KEY (id)")
    log.append({"id": number} for number in range(5))
    table.apply_changes({"id": number, "n": 1, "_change_type": "+I"} for number in range(5))
    with table.writer() as writer:
        writer.upsert({"id": number, "n": 2} for number in range(7))
        writer.delete(key for key in (0, 1))

    assert log.scan().to_arrow().num_rows == 5
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [2, 3, 4, 5, 6]


def test_results_say_what_happened_and_why_rows_were_ignored(connection: penstock.Connection) -> None:
    ddl, rows = "id BIGINT, n BIGINT, PRIMARY KEY (id)", [{"id": 1, "n": 5}, {"id": 2, "n": 5}]
    last = connection.create_table("shop.last", ddl)
    first = connection.create_table("shop.first", ddl, merge_engine="first_row")
    newest = connection.create_table("shop.newest", ddl, merge_engine="versioned", version_column="n")

    assert repr(last.upsert(rows)) == "WriteResult(rows=2, changes=2)"
    assert repr(last.upsert(rows[:1], columns=["n"])) == "WriteResult(rows=1, changes=0, ignored=1 (nothing changed))"
    assert repr(last.delete([1, 7])) == "WriteResult(rows=2, changes=1, ignored=1 (absent key))"
    first.upsert(rows[:1])
    assert repr(first.upsert(rows)) == "WriteResult(rows=2, changes=1, ignored=1 (key exists))"
    assert repr(first.delete([1])) == "WriteResult(rows=1, changes=0, ignored=1 (delete.behavior is ignore))"
    assert first.delete_where("id = 1").ignored_because == "delete.behavior is ignore"
    newest.upsert(rows)
    assert repr(newest.upsert([{"id": 1, "n": 4}])) == "WriteResult(rows=1, changes=0, ignored=1 (older version))"
