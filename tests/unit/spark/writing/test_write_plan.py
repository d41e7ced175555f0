"""What a job writes, decided before a row moves."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

import penstock
from penstock.client.link.link import Link
from penstock.engine.engine import Engine
from penstock.engine.table.catalog_service import CatalogService
from penstock.errors import InvalidError, SchemaMismatchError, UnsupportedError
from penstock.model.node.calls import Operation
from penstock.model.schema.aggregate import AggFunction
from penstock.model.table.table import TableInfo
from penstock.spark.session.options import Options
from penstock.spark.writing.write_plan import WritePlan, plan_write

ORDERS = "id BIGINT, city STRING, amount DOUBLE, PRIMARY KEY (id)"
SUMS = "k BIGINT, total BIGINT SUM, n BIGINT COUNT, PRIMARY KEY (k)"

TYPES = {
    "bigint": spark.LongType(),
    "int": spark.IntegerType(),
    "string": spark.StringType(),
    "double": spark.DoubleType(),
    "timestamp": spark.TimestampType(),
    "timestamp_ntz": spark.TimestampNTZType(),
}


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    with penstock.connect(tmp_path / "data") as conn:
        conn.create_database("shop")
        conn.create_table("shop.orders", ORDERS)
        conn.create_table("shop.sums", SUMS)
        conn.create_table("shop.log", "id BIGINT, at TIMESTAMP")
        counted = "k BIGINT, n BIGINT COUNT, PRIMARY KEY (k)"
        conn.create_table("shop.counted", counted, properties={"aggregate.delete-at-zero": "n"})
    engine = Engine.open(tmp_path / "data")
    made = Link(engine, "embedded")
    yield made
    made.close()


def plan(link: Link, table: str, ddl: str, **options: Any) -> WritePlan:
    fields = [column.split() for column in ddl.split(", ")]
    data = spark.StructType([spark.StructField(name, TYPES[word]) for name, word in fields])
    return plan_write(Options({"url": "penstock://x", "table": table} | options), link, data)


def test_names_are_matched_in_any_case_and_order(link: Link) -> None:
    made = plan(link, "shop.orders", "AMOUNT double, City string, id int")

    assert made.sent == (("id", "id"), ("City", "city"), ("AMOUNT", "amount"))
    assert made.operation is Operation.UPSERT
    assert made.locked_columns == ["city", "amount"]
    assert pickle.loads(pickle.dumps(made)).sent == made.sent


def test_a_job_owns_only_the_columns_that_it_writes(link: Link) -> None:
    assert plan(link, "shop.sums", "k bigint, total bigint").locked_columns == ["total"]
    assert plan(link, "shop.sums", "k bigint, n bigint, total bigint", columns=["n"]).locked_columns == ["n"]
    assert plan(link, "shop.sums", "k bigint", operation="delete").locked_columns is None
    assert plan(link, "shop.sums", "k bigint, n bigint, total bigint").locked_columns == ["total", "n"]
    assert plan(link, "shop.log", "id bigint, at timestamp").locked_columns is None


def test_changes_of_some_columns_are_folded_under_the_lock_of_these(link: Link) -> None:
    changes = "k bigint, total bigint, _change_type string, _offset bigint"

    absent = plan(link, "shop.sums", changes, operation="apply")
    named = plan(link, "shop.sums", f"{changes}, n bigint", operation="apply", columns=["total"])

    for made in (absent, named):
        assert [name for _, name in made.sent] == ["k", "total", "_change_type"]
        assert made.locked_columns == ["total"]


def test_every_column_is_owned_by_who_may_take_rows_away(link: Link) -> None:
    whole = "id bigint, city string, amount double, _change_type string, _offset bigint"

    assert plan(link, "shop.orders", whole, operation="apply").locked_columns is None
    assert plan(link, "shop.counted", "k bigint, n bigint").locked_columns is None


def test_a_column_that_was_added_later_may_be_absent(link: Link) -> None:
    info = link.node.catalog.table("shop.orders")
    link.node.catalog.add_column(info.table_id, "note", pa.string())

    made = plan(link, "shop.orders", "id bigint, city string, amount double")

    assert [name for _, name in made.sent] == ["id", "city", "amount"]
    assert made.locked_columns == ["city", "amount"]
    with pytest.raises(SchemaMismatchError, match="column=amount"):
        plan(link, "shop.orders", "id bigint, city string, note string")


def test_a_log_table_is_appended_to(link: Link) -> None:
    assert plan(link, "shop.log", "id bigint, at timestamp").operation is Operation.APPEND


def test_a_column_that_only_orders_rows_is_not_sent(link: Link) -> None:
    made = plan(link, "shop.orders", "id bigint, city string, amount double, version int", order_by="VERSION desc")

    assert [name for _, name in made.sent] == ["id", "city", "amount"]


def test_changes_keep_their_kind_and_lose_what_else_a_changelog_adds(link: Link) -> None:
    made = plan(
        link,
        "shop.sums",
        "k bigint, total bigint, n bigint, _change_type string, _offset bigint, _bucket int",
        operation="apply",
    )

    assert [name for _, name in made.sent] == ["k", "total", "n", "_change_type"]
    assert made.folds_changes


def test_a_schema_grows_only_when_asked(link: Link) -> None:
    wider = "id bigint, city string, amount double, note string"

    with pytest.raises(SchemaMismatchError, match="mergeSchema=true"):
        plan(link, "shop.orders", wider)
    made = plan(link, "shop.orders", wider, merge_schema=True)

    assert made.info.schema.names == ["id", "city", "amount", "note"]
    with pytest.raises(SchemaMismatchError, match="needs a function"):
        plan(link, "shop.sums", "k bigint, extra bigint", merge_schema=True)


class Overtaken(CatalogService):
    """A catalog in which another job adds a column just before this one does."""

    def __init__(self, catalog: CatalogService) -> None:
        vars(self).update(vars(catalog))

    def add_column(
        self,
        table_id: int,
        name: str,
        type: pa.DataType,
        agg: AggFunction | None = None,
        default: pa.Scalar | None = None,
    ) -> TableInfo:
        super().add_column(table_id, name, type, agg, default)
        return super().add_column(table_id, name, type, agg, default)


def test_a_column_that_another_job_adds_at_the_same_time_is_used(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as conn:
        conn.create_table("orders", ORDERS)
    engine = Engine.open(tmp_path / "data")
    engine.catalog = Overtaken(engine.catalog)
    link = Link(engine, "embedded")

    made = plan(link, "orders", "id bigint, city string, amount double, note string, n int", merge_schema=True)

    assert made.info.schema.names == ["id", "city", "amount", "note", "n"]
    assert made.info.schema_id == link.node.catalog.table("default.orders").schema_id
    link.close()


@pytest.mark.parametrize(
    ("table", "ddl", "options", "error", "message"),
    [
        ("shop.log", "id bigint, at timestamp_ntz", {}, SchemaMismatchError, "cast it first"),
        ("shop.log", "id bigint, at timestamp", {"operation": "upsert"}, UnsupportedError, "use append"),
        ("shop.orders", "id bigint, city string, amount double", {"operation": "append"}, UnsupportedError, "upsert"),
        ("shop.orders", "id string, city string, amount double", {}, SchemaMismatchError, "without loss"),
        ("shop.orders", "id bigint, city string", {}, SchemaMismatchError, r"columns=\[...\]"),
        ("shop.orders", "city string", {"operation": "delete"}, SchemaMismatchError, "add it"),
        ("shop.orders", "id bigint", {"operation": "apply", "columns": ["city"]}, InvalidError, "whole rows"),
        ("shop.orders", "id bigint, _change_type string", {"operation": "apply"}, SchemaMismatchError, "add it column"),
        ("shop.orders", "id bigint", {"agg_mode": "replace"}, InvalidError, "aggregating"),
        ("shop.sums", "k bigint", {"agg_mode": "sideways"}, InvalidError, "no such agg_mode"),
    ],
)
def test_what_does_not_go_together_is_refused(  # noqa: PLR0917 - a table of cases
    link: Link, table: str, ddl: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        plan(link, table, ddl, **options)
