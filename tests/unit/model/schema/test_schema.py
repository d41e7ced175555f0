from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InvalidError, LimitError
from penstock.model.place.change import SYSTEM_FIELDS
from penstock.model.schema.aggregate import AggFunction
from penstock.model.schema.schema import COLUMNS_MAX, Schema


@pytest.fixture
def revenue() -> Schema:
    return (
        Schema.builder()
        .column("city", pa.string())
        .column("day", "date")
        .agg_column("revenue", pa.decimal128(18, 2), AggFunction.SUM)
        .agg_column("items", pa.string(), "string_agg", delimiter="|")
        .primary_key("city", "day")
        .build()
    )


def test_key_columns_are_never_null_and_others_may_be(revenue: Schema) -> None:
    assert [column.nullable for column in revenue.columns] == [False, False, True, True]
    assert revenue.arrow_schema.field("city") == pa.field("city", pa.string(), nullable=False)


def test_columns_are_found_by_name_by_id_and_in_any_case(revenue: Schema) -> None:
    assert revenue.column("day").id == 1
    assert revenue.column_by_id(2) is revenue.column("revenue")
    assert revenue.column_by_id(99) is None
    assert revenue.find("CITY").name == "city"
    assert "city" in revenue
    assert "CITY" not in revenue


def test_an_unknown_column_is_named_with_the_ones_there_are(revenue: Schema) -> None:
    with pytest.raises(InvalidError, match=r"there are city, day, revenue, items column=price"):
        revenue.column("price")


def test_stored_columns_are_named_by_id_and_all_nullable(revenue: Schema) -> None:
    stored = revenue.storage_schema()

    assert stored.names == ["0", "1", "2", "3", "_op", "_prev"]
    assert all(field.nullable for field in list(stored)[:4])
    assert [stored.field(4), stored.field(5)] == list(SYSTEM_FIELDS)


def test_a_stored_row_of_a_log_table_is_its_columns_alone() -> None:
    schema = Schema.from_arrow(pa.schema([("a", pa.int64())]))

    assert schema.storage_schema().names == ["0"]
    assert not schema.keyed


def test_a_schema_reads_back_from_json_as_itself(revenue: Schema) -> None:
    again = Schema.from_json(json.loads(json.dumps(revenue.to_json())))

    assert again == revenue
    assert hash(again) == hash(revenue)
    assert again.column("items").agg_params == {"delimiter": "|"}


def test_an_added_column_has_a_new_id_and_may_be_null(revenue: Schema) -> None:
    grown = revenue.add_column("note", "string", agg="last_value")

    assert [column.id for column in grown.columns] == [0, 1, 2, 3, 4]
    assert grown.column("note").nullable
    assert len(revenue.columns) == 4


def test_listagg_has_a_delimiter_and_string_agg_is_listagg(revenue: Schema) -> None:
    assert revenue.column("items").agg is AggFunction.LISTAGG
    plain = Schema.builder().agg_column("a", "string", "LISTAGG").build()
    assert plain.column("a").agg_params == {"delimiter": ","}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b: b.build(), "at least one column"),
        (lambda b: b.column("a", "int").column("A", "int").build(), "same name"),
        (lambda b: b.column("a", "int").primary_key("b").build(), "no such column"),
        (lambda b: b.column("a", "int").primary_key("a", "a").build(), "twice"),
        (lambda b: b.column("a", "double").primary_key("a").build(), "decimal or bigint"),
        (lambda b: b.column("_op", "int"), "reserved"),
        (lambda b: b.column("a", pa.uint64()), "decimal"),
        (lambda b: b.column("a", "wat"), "expected a type"),
        (lambda b: b.column("a", 5), "Arrow type"),
        (lambda b: b.agg_column("a", "string", "sum"), "sum takes an integer"),
        (lambda b: b.agg_column("a", "int", "median"), "choose one of"),
        (lambda b: b.agg_column("a", "int", "sum", delimiter=","), "only listagg"),
        (lambda b: b.agg_column("a", "string", "listagg", delimiter="x" * 65), "delimiter"),
        (lambda b: b.agg_column("a", "int", "sum").primary_key("a").build(), "key column has no aggregate"),
    ],
)
def test_what_makes_no_schema_is_refused(build: Any, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        build(Schema.builder())


def test_a_schema_has_a_limit_of_columns() -> None:
    fields = [(f"c{position}", pa.int32()) for position in range(COLUMNS_MAX)]
    Schema.from_arrow(pa.schema(fields))

    with pytest.raises(LimitError, match="2000 columns"):
        Schema.from_arrow(pa.schema([*fields, ("one_more", pa.int32())]))


@pytest.mark.parametrize(
    ("function", "taken", "refused"),
    [
        ("sum", ["int", "double", "decimal(5,2)"], ["string", "date", "boolean"]),
        ("product", ["bigint", "float"], ["binary"]),
        ("min", ["int", "string", "date", "timestamp"], ["array<int>", "boolean"]),
        ("max", ["decimal(38,10)", "timestamp_ntz"], ["map<int,int>"]),
        ("count", ["bigint", "int"], ["smallint", "double"]),
        ("last_value", ["int", "struct<a:int>"], []),
        ("first_value_ignore_nulls", ["binary", "map<int,int>"], []),
        ("listagg", ["string", "large_string"], ["binary"]),
        ("array_agg", ["array<int>", "large_array<int>"], ["int"]),
        ("bool_and", ["boolean"], ["int"]),
        ("bool_or", ["boolean"], ["string"]),
        ("rbm32", ["binary"], ["string"]),
        ("rbm64", ["large_binary"], ["bigint"]),
    ],
)
def test_a_function_takes_only_types_it_can_fold(function: str, taken: list[str], refused: list[str]) -> None:
    for words in taken:
        Schema.builder().agg_column("a", words, function)
    for words in refused:
        with pytest.raises(InvalidError, match=f"{function} takes"):
            Schema.builder().agg_column("a", words, function)


def test_a_schema_shows_its_columns_and_key(revenue: Schema) -> None:
    assert repr(revenue) == (
        "Schema(city STRING, day DATE, revenue DECIMAL(18, 2), items STRING; primary_key=['city', 'day'])"
    )
    assert "  primary key (city, day)" in str(revenue)
