"""What every node's tables do: writes, whole or not at all, and once however often they are sent."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.kit.node_calls import as_writer, batch_of, bucket, make_table, orders, rows_of, write_call

from penstock.errors import (
    DeleteDisabledError,
    InvalidError,
    PenstockError,
    SchemaMismatchError,
    SequenceError,
    TableNotFoundError,
    UnsupportedError,
)
from penstock.model.filter.filter import Filter, col
from penstock.model.node.calls import Operation, WriteCall
from penstock.model.node.node import Node
from penstock.model.schema.agg_mode import AggMode

WRITER = b"w" * 16


def test_write_says_what_it_did_and_where(node: Node) -> None:
    info = make_table(node)

    first = node.tables.write(write_call(info, orders(1, 2, 3)))
    second = node.tables.write(write_call(info, orders(2, 9), Operation.DELETE))

    assert (first.rows, first.changes, first.ignored, first.offsets) == (3, 3, 0, {bucket(info): (0, 3)})
    assert (second.rows, second.changes, second.ignored, second.offsets) == (2, 1, 1, {bucket(info): (3, 4)})
    assert [row["id"] for row in rows_of(node, info)] == [1, 3]


def test_write_that_is_sent_again_is_applied_once_and_answered_alike(node: Node) -> None:
    info = make_table(node)
    call = as_writer(write_call(info, orders(1, 2)), WRITER, 0)

    first = node.tables.write(call)
    node.tables.write(as_writer(write_call(info, orders(3)), WRITER, 1))

    assert node.tables.write(call) == first
    assert node.tables.stats(info.table_id).buckets[0].visible == 3


def test_write_of_long_ago_is_refused(node: Node) -> None:
    info = make_table(node)
    for number in range(10):
        node.tables.write(as_writer(write_call(info, orders(number)), WRITER, number))

    with pytest.raises(SequenceError):
        node.tables.write(as_writer(write_call(info, orders(2, note="late")), WRITER, 2))

    assert {row["note"] for row in rows_of(node, info)} == {"a"}


def test_partial_write_keeps_the_other_columns(node: Node) -> None:
    info = make_table(node, "id BIGINT, a STRING, b STRING, PRIMARY KEY (id)")
    node.tables.write(write_call(info, [{"id": 1, "a": "x", "b": "y"}]))
    batch = batch_of(info, [{"id": 1, "b": "z"}], ["id", "b"])

    node.tables.write(WriteCall(info.table_id, info.schema_id, Operation.UPSERT, batch, columns=("b",)))

    assert rows_of(node, info) == [{"id": 1, "a": "x", "b": "z"}]


def test_mode_of_a_write_says_how_values_enter_aggregates(node: Node) -> None:
    info = make_table(node, "id BIGINT, n BIGINT SUM, PRIMARY KEY (id)", merge_engine="aggregate")
    node.tables.write(write_call(info, [{"id": 1, "n": 5}]))
    node.tables.write(write_call(info, [{"id": 1, "n": 6}]))
    assert rows_of(node, info) == [{"id": 1, "n": 11}]

    node.tables.write(write_call(info, [{"id": 1, "n": 2}], agg_mode=AggMode.REPLACE))

    assert rows_of(node, info) == [{"id": 1, "n": 2}]


def test_bad_writes_write_nothing(node: Node) -> None:
    info = make_table(node, buckets=4)
    log = make_table(node, "a BIGINT", "shop.clicks")
    good = write_call(info, orders(*range(20)))
    wrong = pa.record_batch({"id": pa.array([1], pa.int64()), "note": pa.array([7], pa.int64())})
    strange = pa.record_batch({"id": pa.array([1], pa.int64()), "other": ["x"]})
    nulls = pa.record_batch({"id": pa.array([1, None], pa.int64()), "note": ["a", "b"]})
    cases: list[tuple[WriteCall, type[PenstockError]]] = [
        (WriteCall(info.table_id, info.schema_id, Operation.UPSERT, wrong), SchemaMismatchError),
        (WriteCall(info.table_id, info.schema_id, Operation.UPSERT, strange), SchemaMismatchError),
        (WriteCall(info.table_id, info.schema_id, Operation.UPSERT, nulls), SchemaMismatchError),
        (WriteCall(info.table_id, info.schema_id, Operation.APPEND, good.batch), UnsupportedError),
        (WriteCall(log.table_id, log.schema_id, Operation.UPSERT, good.batch), UnsupportedError),
        (write_call(info, orders(1), agg_mode=AggMode.REPLACE), InvalidError),
    ]

    for call, kind in cases:
        with pytest.raises(kind):
            node.tables.write(call)

    assert rows_of(node, info) == []


def test_writes_to_a_table_that_is_gone_say_so(node: Node) -> None:
    info = make_table(node)
    node.catalog.drop_table(info.path)
    filter = Filter("id > 1", info.schema).to_bytes()

    for act in (
        lambda: node.tables.write(write_call(info, orders(1))),
        lambda: node.tables.delete_where(info.table_id, filter, WRITER, 0),
        lambda: node.tables.truncate(info.table_id),
        lambda: node.tables.stats(info.table_id),
    ):
        with pytest.raises(TableNotFoundError):
            act()


def test_rows_that_match_are_deleted_once(node: Node) -> None:
    info = make_table(node, buckets=2)
    node.tables.write(write_call(info, orders(*range(10))))
    filter = Filter(col("id") >= 6, info.schema).to_bytes()

    first = node.tables.delete_where(info.table_id, filter, WRITER, 0)
    node.tables.write(write_call(info, orders(8)))

    assert first.changes == 4
    assert node.tables.delete_where(info.table_id, filter, WRITER, 0) == first
    assert [row["id"] for row in rows_of(node, info)] == [0, 1, 2, 3, 4, 5, 8]


def test_truncate_deletes_all_rows(node: Node) -> None:
    info = make_table(node)
    node.tables.write(write_call(info, orders(1, 2, 3)))

    assert node.tables.truncate(info.table_id).changes == 3
    assert rows_of(node, info) == []


def test_table_without_deletes_refuses_them(node: Node) -> None:
    info = make_table(node, properties={"delete.behavior": "disable"})
    node.tables.write(write_call(info, orders(1)))

    with pytest.raises(DeleteDisabledError):
        node.tables.write(write_call(info, orders(1), Operation.DELETE))
    with pytest.raises(DeleteDisabledError):
        node.tables.truncate(info.table_id)


def test_stats_count_rows_of_each_bucket(node: Node) -> None:
    info = make_table(node, buckets=3)
    node.tables.write(write_call(info, orders(*range(30))))
    node.tables.write(write_call(info, orders(0), Operation.DELETE))

    stats = node.tables.stats(info.table_id)

    assert (stats.rows, stats.live_rows) == (31, 29)
    assert [found.bucket for found in stats.buckets] == [bucket(info, number) for number in range(3)]
    assert sum(found.visible for found in stats.buckets) == 31


def test_writes_sent_ahead_are_answered_in_order_and_end_at_the_first_failure(node: Node) -> None:
    info = make_table(node)
    calls = [as_writer(write_call(info, orders(number)), WRITER, number) for number in range(3)]
    writes = node.tables.write_stream()
    if writes is None:
        return  # an embedded node offers none: nothing travels

    with closing(writes):
        writes.send(calls[0])
        writes.send(replace(calls[1], agg_mode=AggMode.REPLACE))
        writes.send(calls[2])
        assert writes.result().rows == 1
        with pytest.raises(InvalidError, match="agg_mode"):
            writes.result()
        with pytest.raises(PenstockError, match="the call before it failed"):
            writes.result()

    assert [row["id"] for row in rows_of(node, info)] == [0]
