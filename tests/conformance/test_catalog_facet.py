"""What every node's catalog does: databases, tables, partitions, buckets."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.kit.node_calls import KEYED, bucket, make_table, orders, write_call

from penstock.errors import (
    AlreadyExistsError,
    DatabaseNotFoundError,
    InvalidError,
    PartitionNotFoundError,
    TableNotFoundError,
)
from penstock.model.node.node import Node
from penstock.model.schema.aggregate import AggFunction
from penstock.model.table.spec import make_spec

DAILY = "day STRING, id BIGINT, PRIMARY KEY (day, id)"


def test_database_is_listed_until_it_is_dropped(node: Node) -> None:
    node.catalog.create_database("books")
    node.catalog.create_database("books", if_not_exists=True)
    assert node.catalog.list_databases() == ["books", "default", "shop"]

    node.catalog.drop_database("books")

    assert node.catalog.list_databases() == ["default", "shop"]
    node.catalog.drop_database("books", if_exists=True)


def test_database_is_created_once_and_dropped_once(node: Node) -> None:
    with pytest.raises(AlreadyExistsError):
        node.catalog.create_database("shop")
    with pytest.raises(DatabaseNotFoundError):
        node.catalog.drop_database("none")


def test_database_with_tables_goes_with_cascade_only(node: Node) -> None:
    make_table(node)

    with pytest.raises(InvalidError, match="cascade"):
        node.catalog.drop_database("shop")
    node.catalog.drop_database("shop", cascade=True)

    with pytest.raises(DatabaseNotFoundError):
        node.catalog.table("shop.orders")
    assert node.catalog.list_databases() == ["default"]


def test_table_is_found_by_path_and_id_as_it_was_created(node: Node) -> None:
    info = make_table(node, buckets=3, properties={"log.retention": "1d"})

    assert node.catalog.table("shop.orders") == node.catalog.table_by_id(info.table_id) == info
    assert node.catalog.list_tables("shop") == ["orders"]
    assert node.catalog.buckets(info.table_id) == [bucket(info, number) for number in range(3)]


def test_table_is_created_once_unless_told_otherwise(node: Node) -> None:
    info = make_table(node)

    with pytest.raises(AlreadyExistsError):
        make_table(node)

    assert node.catalog.create_table("shop.orders", make_spec(KEYED), if_not_exists=True) == info


def test_table_created_anew_has_another_id_and_the_old_id_is_gone(node: Node) -> None:
    old = make_table(node)
    node.catalog.drop_table("shop.orders")
    new = make_table(node)

    assert new.table_id != old.table_id
    for act in (
        lambda: node.catalog.table_by_id(old.table_id),
        lambda: node.catalog.buckets(old.table_id),
        lambda: node.catalog.list_partitions(old.table_id),
        lambda: node.catalog.add_column(old.table_id, "more", pa.int64()),
    ):
        with pytest.raises(TableNotFoundError):
            act()


def test_dropping_a_table_that_is_not_there_is_an_error_unless_told_otherwise(node: Node) -> None:
    with pytest.raises(TableNotFoundError, match=r"shop\.orders"):
        node.catalog.drop_table("shop.orders")
    node.catalog.drop_table("shop.orders", if_exists=True)


def test_tables_of_a_database_that_is_not_there_are_an_error(node: Node) -> None:
    with pytest.raises(DatabaseNotFoundError):
        node.catalog.list_tables("none")
    with pytest.raises(DatabaseNotFoundError):
        make_table(node, path="none.orders")


def test_added_column_comes_with_another_schema_id(node: Node) -> None:
    info = make_table(node, "id BIGINT, n BIGINT SUM, PRIMARY KEY (id)", merge_engine="aggregate")

    grown = node.catalog.add_column(info.table_id, "top", pa.int64(), AggFunction.MAX)

    assert grown.schema_id > info.schema_id
    assert grown.schema.names == ["id", "n", "top"]
    assert node.catalog.table_by_id(info.table_id) == grown
    with pytest.raises(AlreadyExistsError):
        node.catalog.add_column(info.table_id, "top", pa.int64(), AggFunction.MAX)


def test_partition_is_there_from_its_creation_to_its_drop(node: Node) -> None:
    info = make_table(node, DAILY, partitioned_by=["day"], buckets=2)

    assert node.catalog.create_partition(info.table_id, {"day": "mon"}) == "day=mon"
    assert node.catalog.create_partition(info.table_id, {"day": "mon"}, if_not_exists=True) == "day=mon"
    assert node.catalog.list_partitions(info.table_id) == ["day=mon"]
    assert node.catalog.buckets(info.table_id) == [bucket(info, number, "day=mon") for number in range(2)]
    with pytest.raises(AlreadyExistsError):
        node.catalog.create_partition(info.table_id, {"day": "mon"})

    node.catalog.drop_partition(info.table_id, {"day": "mon"})

    assert node.catalog.list_partitions(info.table_id) == []
    assert node.catalog.buckets(info.table_id) == []
    with pytest.raises(PartitionNotFoundError):
        node.catalog.drop_partition(info.table_id, {"day": "mon"})
    node.catalog.drop_partition(info.table_id, {"day": "mon"}, if_exists=True)


def test_write_creates_its_partition(node: Node) -> None:
    info = make_table(node, DAILY, partitioned_by=["day"])

    node.tables.write(write_call(info, [{"day": "tue", "id": 1}]))

    assert node.catalog.list_partitions(info.table_id) == ["day=tue"]


def test_place_of_this_database_is_accepted_and_of_another_refused(node: Node) -> None:
    info = make_table(node)
    node.tables.write(write_call(info, orders(1, 2)))
    here = node.catalog.database_id()

    node.catalog.check_origin(here, info.table_id, {bucket(info): 2})

    assert node.catalog.database_id() == here
    with pytest.raises(InvalidError, match="another database"):
        node.catalog.check_origin("ab" * 16, info.table_id, {bucket(info): 2})
