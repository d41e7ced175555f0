"""What every node's lookups do: rows by key, in the order asked, of one view."""

from __future__ import annotations

import pytest
from tests.kit.node_calls import bucket, lookup_call, make_table, orders, write_call

from penstock.errors import InvalidError, SchemaMismatchError, TableNotFoundError, UnsupportedError
from penstock.model.node.calls import Operation
from penstock.model.node.node import Node

PLACES = "city STRING, n BIGINT, note STRING, PRIMARY KEY (city, n)"


def test_rows_come_in_the_order_asked_with_what_was_found(node: Node) -> None:
    info = make_table(node, buckets=4)
    node.tables.write(write_call(info, orders(*range(50))))
    node.tables.write(write_call(info, orders(7), Operation.DELETE))

    found = node.lookup.rows(lookup_call(info, [{"id": 30}, {"id": 7}, {"id": 30}, {"id": 99}, {"id": 0}]))

    assert found.batch.to_pylist() == [
        {"id": 30, "note": "a", "_found": True},
        {"id": 7, "note": None, "_found": False},
        {"id": 30, "note": "a", "_found": True},
        {"id": 99, "note": None, "_found": False},
        {"id": 0, "note": "a", "_found": True},
    ]


def test_answer_says_at_which_offsets(node: Node) -> None:
    info = make_table(node)
    node.tables.write(write_call(info, orders(1, 2)))

    assert node.lookup.rows(lookup_call(info, [{"id": 1}])).offsets == {bucket(info): 2}


def test_only_the_columns_asked_for_come(node: Node) -> None:
    info = make_table(node)
    node.tables.write(write_call(info, orders(1)))

    found = node.lookup.rows(lookup_call(info, [{"id": 1}], ("note",)))

    assert found.batch.to_pylist() == [{"note": "a", "_found": True}]
    with pytest.raises(InvalidError):
        node.lookup.rows(lookup_call(info, [{"id": 1}], ("nope",)))


def test_prefix_finds_the_rows_whose_key_begins_so_in_key_order(node: Node) -> None:
    info = make_table(node, PLACES, buckets=3, bucket_key=["n"])
    rows = [{"city": city, "n": n, "note": city} for city in ("Bonn", "Ulm", "Ulma") for n in (3, 1, 2)]
    node.tables.write(write_call(info, rows))

    found = node.lookup.prefix(lookup_call(info, [{"city": "Ulm"}]))

    assert found.batch.to_pylist() == [{"city": "Ulm", "n": n, "note": "Ulm"} for n in (1, 2, 3)]
    assert node.lookup.prefix(lookup_call(info, [{"city": "U"}])).batch.num_rows == 0


def test_keys_that_do_not_fit_are_refused(node: Node) -> None:
    info = make_table(node, PLACES)

    with pytest.raises(SchemaMismatchError):
        node.lookup.rows(lookup_call(info, [{"city": "Ulm"}]))
    with pytest.raises(SchemaMismatchError):
        node.lookup.prefix(lookup_call(info, [{"n": 1}]))
    with pytest.raises(SchemaMismatchError, match="one row"):
        node.lookup.prefix(lookup_call(info, [{"city": "Ulm"}, {"city": "Bonn"}]))


def test_log_tables_and_tables_that_are_gone_have_no_lookups(node: Node) -> None:
    log = make_table(node, "a BIGINT", "shop.clicks")
    info = make_table(node)
    node.catalog.drop_table(info.path)

    with pytest.raises(UnsupportedError):
        node.lookup.rows(lookup_call(log, [{"a": 1}]))
    with pytest.raises(TableNotFoundError):
        node.lookup.rows(lookup_call(info, [{"id": 1}]))
    with pytest.raises(TableNotFoundError):
        node.lookup.prefix(lookup_call(info, [{"id": 1}]))
