"""What every node's change logs do: where they begin and end, and what changed in between."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.conftest import House
from tests.kit.node_calls import bucket, make_table, orders, write_call

from penstock.errors import OffsetOutOfRangeError, PartitionNotFoundError, PenstockError, TableNotFoundError
from penstock.model.node.calls import Images, Offsets, Operation, PullChanges
from penstock.model.node.node import Node
from penstock.model.table.table import TableInfo

DAILY = "day STRING, id BIGINT, PRIMARY KEY (day, id)"


@pytest.fixture
def info(node: Node) -> TableInfo:
    info = make_table(node)
    node.tables.write(write_call(info, orders(1, 2)))
    node.tables.write(write_call(info, orders(2, note="b")))
    node.tables.write(write_call(info, orders(1), Operation.DELETE))
    return info


def pull(info: TableInfo, start: int = 0, end: int | None = None, **facts: Any) -> PullChanges:
    return PullChanges(info.table_id, info.schema_id, {bucket(info): (start, end)}, **facts)


def seen(node: Node, call: PullChanges) -> list[tuple[int, str, int, str | None]]:
    return [
        (row["_offset"], row["_change_type"], row["id"], row["note"])
        for page in node.changes.pull(call)
        for row in page.batch.to_pylist()
    ]


def test_changes_come_in_order_with_the_images_asked_for(node: Node, info: TableInfo) -> None:
    assert seen(node, pull(info)) == [
        (0, "+I", 1, "a"),
        (1, "+I", 2, "a"),
        (2, "-U", 2, "a"),
        (2, "+U", 2, "b"),
        (3, "-D", 1, "a"),
    ]
    assert seen(node, pull(info, 2, images=Images.AFTER)) == [(2, "+U", 2, "b"), (3, "-D", 1, None)]


def test_pull_is_bounded_by_its_end_and_says_where_it_goes_on(node: Node, info: TableInfo) -> None:
    (page,) = node.changes.pull(pull(info, 1, 3))

    assert (page.bucket, page.start, page.next_offset, page.end) == (bucket(info), 1, 3, 4)


def test_pull_takes_little_at_a_time_but_always_something(node: Node, info: TableInfo) -> None:
    (page,) = node.changes.pull(pull(info, max_bytes=1))

    assert page.next_offset == 1


def test_pull_at_the_end_has_nothing(node: Node, info: TableInfo) -> None:
    assert node.changes.pull(pull(info, 4)) == []
    assert node.changes.pull(PullChanges(info.table_id, info.schema_id, {})) == []


def test_pull_beyond_the_end_or_below_the_base_is_refused(house: House, info: TableInfo) -> None:
    house.engine.forget_before(bucket(info), 2)

    for start in (1, 5):
        with pytest.raises(OffsetOutOfRangeError):
            house.node.changes.pull(pull(info, start))
    assert house.node.changes.offsets(info.table_id) == {bucket(info): Offsets(2, 4)}


def test_reader_protects_where_it_stands(house: House, info: TableInfo) -> None:
    node = house.node
    node.changes.pull(pull(info, 1, reader_id="me"))

    house.engine.forget_before(bucket(info), 4)

    assert node.changes.offsets(info.table_id)[bucket(info)].base <= 1
    assert seen(node, pull(info, 1, 2, reader_id="me")) == [(1, "+I", 2, "a")]


def test_offsets_of_a_time_begin_at_the_first_change_at_or_after_it(house: House) -> None:
    node = house.node
    info = make_table(node)
    node.tables.write(write_call(info, orders(1)))
    house.engine.clock.advance(1_000)
    later_ms = house.engine.clock.wall_ms()
    node.tables.write(write_call(info, orders(2)))

    assert node.changes.offsets(info.table_id, timestamp_ms=later_ms) == {bucket(info): Offsets(1, 2)}
    assert node.changes.offsets(info.table_id, timestamp_ms=later_ms + 1)[bucket(info)].base == 2


def test_log_state_knows_partitions_that_went(node: Node) -> None:
    info = make_table(node, DAILY, partitioned_by=["day"])
    node.tables.write(write_call(info, [{"day": "mon", "id": 1}, {"day": "mon", "id": 2}, {"day": "tue", "id": 1}]))
    before = node.changes.log_state(info.table_id)
    node.catalog.drop_partition(info.table_id, {"day": "mon"})

    state = node.changes.log_state(info.table_id)

    assert set(before.offsets) == {bucket(info, 0, "day=mon"), bucket(info, 0, "day=tue")}
    assert set(state.offsets) == {bucket(info, 0, "day=tue")}
    assert [(gone.name, gone.ends) for gone in state.gone] == [("day=mon", (2,))]
    assert node.changes.log_state(info.table_id, since=state.births).gone == ()
    with pytest.raises(PartitionNotFoundError):
        node.changes.pull(PullChanges(info.table_id, info.schema_id, {bucket(info, 0, "day=mon"): (0, None)}))


def test_table_that_is_gone_has_no_changes(node: Node, info: TableInfo) -> None:
    node.catalog.drop_table(info.path)

    for act in (
        lambda: node.changes.offsets(info.table_id),
        lambda: node.changes.log_state(info.table_id),
        lambda: node.changes.pull(pull(info)),
    ):
        with pytest.raises(TableNotFoundError):
            act()


def test_lease_that_is_unknown_has_no_changes(node: Node, info: TableInfo) -> None:
    with pytest.raises(PenstockError):
        node.changes.offsets(info.table_id, lease_id="never")
    with pytest.raises(PenstockError):
        node.changes.pull(pull(info, lease_id="never"))
