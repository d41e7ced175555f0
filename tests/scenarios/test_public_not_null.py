"""Columns that are declared not null: no way of writing leaves one without a value, so readers may believe it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock
from penstock.errors import SchemaMismatchError

NESTED = """
id INT, s STRUCT<x: INT NOT NULL, y: STRING>, l ARRAY<INT NOT NULL>, m MAP<STRING, INT NOT NULL>,
d ARRAY<STRUCT<q: INT NOT NULL>>, PRIMARY KEY (id)
"""
BLANK = {"id": 1, "s": None, "l": None, "m": None, "d": None}


def test_partial_write_makes_no_row_without_a_required_value(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", "id INT, city STRING NOT NULL, n INT, PRIMARY KEY (id)")
    table.upsert([{"id": 1, "city": "Ulm", "n": 1}])

    with pytest.raises(SchemaMismatchError, match=r"declared not null, .* column=city key=\{'id': 2\}"):
        table.upsert([{"id": 1, "n": 5}, {"id": 2, "n": 5}], columns=["n"])
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "city": "Ulm", "n": 1}]

    table.upsert([{"id": 1, "n": 5}], columns=["n"])
    assert table.get(id=1) == {"id": 1, "city": "Ulm", "n": 5}


def test_required_column_is_not_cleared_but_goes_with_its_row(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", "id INT, city STRING NOT NULL, n INT, PRIMARY KEY (id)")
    table.upsert([{"id": 1, "city": "Ulm", "n": 1}])

    with pytest.raises(SchemaMismatchError, match=r"declared not null, .* column=city key=\{'id': 1\}"):
        table.delete([{"id": 1}], columns=["city"])
    assert table.delete([{"id": 2}], columns=["city"]).ignored == 1
    assert table.delete([{"id": 1}], columns=["city", "n"]).changes == 1

    assert table.get(id=1) is None


def test_aggregate_row_does_not_begin_without_a_required_value(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.sums", "id INT, s BIGINT NOT NULL SUM, m BIGINT MAX, PRIMARY KEY (id)")

    with pytest.raises(SchemaMismatchError, match=r"declared not null, .* column=s key=\{'id': 1\}"):
        table.upsert([{"id": 1, "m": 1}])
    table.upsert([{"id": 1, "s": 1}])
    table.upsert([{"id": 1, "m": 7}])

    assert table.get(id=1) == {"id": 1, "s": 1, "m": 7}


@pytest.mark.parametrize(
    "wrong",
    [{"s": {"x": None, "y": "a"}}, {"l": [1, None]}, {"m": {"a": None}}, {"d": [{"q": 1}, {"q": None}]}],
    ids=["struct", "list", "map", "list of structs"],
)
def test_null_inside_a_value_is_refused_where_the_type_allows_none(
    wrong: dict[str, object], connection: penstock.Connection
) -> None:
    table = connection.create_table("shop.nested", NESTED)

    with pytest.raises(SchemaMismatchError, match=f"allows no null there.* column={next(iter(wrong))} row=1"):
        table.upsert([BLANK, BLANK | wrong])

    assert table.scan().to_arrow().num_rows == 0


def test_nulls_around_required_inner_values_are_taken(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.nested", NESTED)
    full = {"id": 2, "s": {"x": 1, "y": None}, "l": [1], "m": [("a", 1)], "d": [{"q": 1}, None]}

    table.upsert([BLANK, full, BLANK | {"id": 3, "l": [], "m": [], "d": []}])

    assert table.get(id=2) == full


def test_null_outside_a_slice_is_not_held_against_it(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.nested", NESTED)
    lists = pa.array([[None], [1], [None]], pa.list_(pa.int32()))
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "l": lists})

    table.upsert(rows.slice(1, 1), columns=["l"])

    assert table.get(id=2) == BLANK | {"id": 2, "l": [1]}


def test_null_inside_a_batch_of_the_tables_own_schema_is_refused(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.lists", "l ARRAY<INT NOT NULL>")
    kind = table.schema.field("l").type

    with pytest.raises(SchemaMismatchError, match="column=l row=1"):
        table.append(pa.record_batch({"l": pa.array([[1], [None]], kind)}))

    assert table.scan().to_arrow().num_rows == 0
