"""What every node's leases do: snapshots, and what keeps them readable for a while."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.conformance.conftest import House
from tests.kit.node_calls import bucket, make_table, orders, scan_rows, write_call

from penstock.errors import (
    InvalidError,
    LeaseNotFoundError,
    LimitError,
    OffsetOutOfRangeError,
    TableNotFoundError,
    UnsupportedError,
)
from penstock.model.node.calls import OpenScan, Operation
from penstock.model.node.lease import AcquireLease, CutOffsets
from penstock.model.node.node import Node
from penstock.model.table.table import TableInfo

MINUTE_MS = 60_000


@pytest.fixture
def info(node: Node) -> TableInfo:
    info = make_table(node)
    node.tables.write(write_call(info, orders(1, 2, 3)))
    return info


def test_snapshot_is_numbered_and_listed(node: Node, info: TableInfo) -> None:
    (taken,) = node.leases.create_snapshot(info.table_id)

    assert (taken.bucket, taken.offset, taken.damaged) == (bucket(info), 3, None)
    assert taken.id is not None
    assert [found.id for found in node.leases.list_snapshots(info.table_id)] == [taken.id]


def test_snapshot_of_what_did_not_change_is_the_one_that_there_is(node: Node, info: TableInfo) -> None:
    (first,) = node.leases.create_snapshot(info.table_id)
    (again,) = node.leases.create_snapshot(info.table_id)

    assert (again.id, again.offset) == (first.id, first.offset)


def test_log_table_has_no_snapshots(node: Node) -> None:
    log = make_table(node, "a BIGINT", "shop.clicks")

    with pytest.raises(UnsupportedError):
        node.leases.create_snapshot(log.table_id)


def test_lease_holds_what_it_was_acquired_for_and_is_listed(node: Node, info: TableInfo) -> None:
    lease = node.leases.acquire(AcquireLease("job", MINUTE_MS, latest=(info.table_id,)))

    assert (lease.lease_id, lease.duration_ms) == ("job", MINUTE_MS)
    assert [(held.table_id, held.snapshot.offset) for held in lease.leased] == [(info.table_id, 3)]
    assert node.leases.get("job").snapshots == lease.snapshots
    assert [found.lease_id for found in node.leases.list()] == ["job"]
    assert node.leases.kept_bytes("job") >= 0


def test_lease_that_is_acquired_again_holds_both(node: Node, info: TableInfo) -> None:
    other = make_table(node, path="shop.items")
    node.leases.acquire(AcquireLease("job", MINUTE_MS, latest=(info.table_id,)))

    both = node.leases.acquire(AcquireLease("job", MINUTE_MS, latest=(other.table_id,)))

    assert {held.table_id for held in both.leased} == {info.table_id, other.table_id}


def test_leased_cut_stays_readable_until_it_is_given_back(house: House, info: TableInfo) -> None:
    node, name = house.node, bucket(info)
    node.leases.acquire(AcquireLease("job", MINUTE_MS, cuts=(CutOffsets(info.table_id, {name: 3}),)))
    node.tables.write(write_call(info, orders(1, 2), Operation.DELETE))
    house.engine.forget_before(name, 5)
    call = OpenScan(info.table_id, info.schema_id, name, as_of=3, lease_id="job")

    assert scan_rows(node, call) == orders(1, 2, 3)
    assert node.leases.release("job", [name]).leased == []

    house.engine.forget_before(name, 5)
    with pytest.raises((LeaseNotFoundError, OffsetOutOfRangeError, InvalidError)):
        node.scan.open(call)


def test_table_that_was_dropped_stays_readable_under_its_lease(node: Node, info: TableInfo) -> None:
    name = bucket(info)
    node.leases.acquire(AcquireLease("job", MINUTE_MS, cuts=(CutOffsets(info.table_id, {name: 3}),)))
    node.catalog.drop_table(info.path)

    call = OpenScan(info.table_id, info.schema_id, name, as_of=3, lease_id="job")

    assert scan_rows(node, call) == orders(1, 2, 3)
    with pytest.raises(TableNotFoundError):
        node.leases.create_snapshot(info.table_id)


def test_lease_counts_from_its_last_renewal(house: House, info: TableInfo) -> None:
    node = house.node
    node.leases.acquire(AcquireLease("job", MINUTE_MS, latest=(info.table_id,)))
    house.engine.clock.advance(MINUTE_MS - 1)
    assert node.leases.renew("job").duration_ms == MINUTE_MS

    house.engine.clock.advance(MINUTE_MS - 1)
    assert node.leases.get("job").lease_id == "job"
    assert node.leases.renew("job", 2 * MINUTE_MS).duration_ms == 2 * MINUTE_MS

    house.engine.clock.advance(2 * MINUTE_MS + 1)
    with pytest.raises(LeaseNotFoundError):
        node.leases.renew("job")


def test_lease_that_is_gone_or_was_never_there_says_so(node: Node, info: TableInfo) -> None:
    node.leases.acquire(AcquireLease("job", MINUTE_MS, latest=(info.table_id,)))
    node.leases.drop("job")

    acts: list[Callable[[str], object]] = [
        node.leases.get,
        node.leases.renew,
        node.leases.drop,
        node.leases.kept_bytes,
        lambda lease_id: node.leases.release(lease_id, [bucket(info)]),
    ]
    for lease_id in ("job", "never"):
        for act in acts:
            with pytest.raises(LeaseNotFoundError):
                act(lease_id)
    assert node.leases.list() == []


def test_what_cannot_be_leased_is_said_and_not_silently_left_out(node: Node, info: TableInfo) -> None:
    lease = node.leases.acquire(AcquireLease("job", MINUTE_MS, latest=(info.table_id,), snapshots={bucket(info): 99}))

    assert set(lease.unavailable) == {bucket(info)}


def test_lease_that_asks_for_too_much_is_refused(node: Node, info: TableInfo) -> None:
    for call, kind in (
        (AcquireLease("", MINUTE_MS, latest=(info.table_id,)), InvalidError),
        (AcquireLease("job", 100 * 86_400_000, latest=(info.table_id,)), LimitError),
        (AcquireLease("job", MINUTE_MS, latest=(info.table_id + 1,)), TableNotFoundError),
    ):
        with pytest.raises(kind):
            node.leases.acquire(call)
    assert node.leases.list() == []
