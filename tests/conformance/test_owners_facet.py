"""What every node's owners do: locks on columns, epochs that count whole or not at all, attempts of which one wins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.conformance.conftest import House
from tests.kit.node_calls import make_table, orders, rows_of, write_call

from penstock.errors import (
    ConflictError,
    FencedError,
    InvalidError,
    LockedError,
    PenstockError,
    TableNotFoundError,
    UnsupportedError,
)
from penstock.model.node.calls import WriteCall
from penstock.model.node.node import Node
from penstock.model.node.owner import AcquireOwner, EpochStatus
from penstock.model.node.owner_token import NO_EPOCH, OwnerToken
from penstock.model.table.table import TableInfo

ONE, TWO = b"1" * 16, b"2" * 16
TTL_MS = 5_000


@pytest.fixture
def info(node: Node) -> TableInfo:
    info = make_table(node, properties={"column-lock.enabled": "true"})
    node.tables.write(write_call(info, orders(1, 2)))
    return info


def acquire(node: Node, info: TableInfo, owner: str = "job", **facts: Any) -> bytes:
    call = AcquireOwner(info.table_id, owner, **({"ttl_ms": TTL_MS} | facts))
    return node.owners.acquire(call).token


def begin(node: Node, session: bytes, epoch: int) -> bytes:
    begun = node.owners.begin(session, epoch)
    assert begun.status is EpochStatus.NEW
    return OwnerToken.from_bytes(session).at(fence=begun.fence, epoch=epoch).to_bytes()


def owned(info: TableInfo, token: bytes, attempt: bytes, *ids: int) -> WriteCall:
    return replace(write_call(info, orders(*ids, note="job")), owner=token, attempt=attempt)


def notes(node: Node, info: TableInfo) -> dict[int, str]:
    return {row["id"]: row["note"] for row in rows_of(node, info)}


def test_epoch_that_is_committed_stays_and_is_not_begun_again(node: Node, info: TableInfo) -> None:
    session = acquire(node, info)
    task = begin(node, session, 1)
    node.tables.write(owned(info, task, ONE, 2, 3))
    end = node.owners.end_attempt(task, ONE, 2)

    node.owners.commit(session, 1, {ONE: 2})
    node.owners.commit(session, 1, {ONE: 2})

    assert (end.attempt, end.rows, end.done) == (ONE, 2, False)
    assert notes(node, info) == {1: "a", 2: "job", 3: "job"}
    assert node.owners.begin(session, 1).status is EpochStatus.COMMITTED
    assert node.owners.list()[0].committed_epoch == 1


def test_epoch_that_is_not_committed_is_taken_back(node: Node, info: TableInfo) -> None:
    session = acquire(node, info)
    task = begin(node, session, 1)
    node.tables.write(owned(info, task, ONE, 2, 3))

    undone = node.owners.undo(session)

    assert (undone.keys, undone.rows_removed) == (2, 1)
    assert notes(node, info) == {1: "a", 2: "a"}
    assert node.owners.undo(session).keys == 0


def test_begin_takes_back_what_the_epoch_before_left(node: Node, info: TableInfo) -> None:
    session = acquire(node, info)
    node.tables.write(owned(info, begin(node, session, 1), ONE, 3))

    begin(node, session, 2)

    assert notes(node, info) == {1: "a", 2: "a"}


def test_first_attempt_to_end_wins_and_later_ones_are_told(node: Node, info: TableInfo) -> None:
    session = acquire(node, info)
    task = begin(node, session, 1)
    node.tables.write(owned(info, task, ONE, 3))
    assert node.owners.end_attempt(task, ONE, 1) == node.owners.end_attempt(task, ONE, 1)

    late = node.tables.write(owned(info, task, TWO, 3))
    end = node.owners.end_attempt(task, TWO, 1)

    assert late.done
    assert (end.attempt, end.done) == (ONE, True)


def test_attempt_of_which_rows_are_missing_does_not_end(node: Node, info: TableInfo) -> None:
    session = acquire(node, info)
    task = begin(node, session, 1)
    node.tables.write(owned(info, task, ONE, 3))

    with pytest.raises(ConflictError):
        node.owners.end_attempt(task, ONE, 2)


def test_staged_rows_appear_at_the_commit(node: Node, info: TableInfo) -> None:
    session = acquire(node, info)
    task = begin(node, session, 1)
    assert node.owners.stage(owned(info, task, ONE, 8, 9)).rows == 2
    assert notes(node, info) == {1: "a", 2: "a"}

    node.owners.commit(session, 1, {ONE: 2})

    assert notes(node, info) == {1: "a", 2: "a", 8: "job", 9: "job"}


def test_staged_rows_may_take_the_place_of_all_there_are(node: Node, info: TableInfo) -> None:
    session = acquire(node, info)
    task = begin(node, session, 1)
    node.owners.stage(owned(info, task, ONE, 8))

    node.owners.commit(session, 1, {ONE: 1}, replaces=True)

    assert notes(node, info) == {8: "job"}


def test_columns_of_an_owner_are_locked_for_others_and_the_error_says_for_how_long(node: Node, info: TableInfo) -> None:
    acquire(node, info)

    with pytest.raises(LockedError) as write:
        node.tables.write(write_call(info, orders(1)))
    with pytest.raises(LockedError) as other:
        acquire(node, info, "other")

    assert 0 < write.value.remaining_ms <= TTL_MS
    assert 0 < other.value.remaining_ms <= TTL_MS


def test_columns_are_free_once_the_owner_is_released_or_expired(house: House, info: TableInfo) -> None:
    node = house.node
    session = acquire(node, info)
    node.owners.release(session)
    node.owners.release(session)
    node.tables.write(write_call(info, orders(1, note="b")))

    acquire(node, info, "silent")
    house.engine.clock.advance(TTL_MS + 1)
    acquire(node, info, "next")

    assert {found.owner: found.held for found in node.owners.list()} == {"job": False, "silent": False, "next": True}


def test_renewal_says_how_long_the_owner_lasts(house: House, info: TableInfo) -> None:
    session = acquire(house.node, info)
    house.engine.clock.advance(TTL_MS - 1)

    assert house.node.owners.renew(session) == TTL_MS
    house.engine.clock.advance(TTL_MS - 1)
    with pytest.raises(LockedError):
        house.node.tables.write(write_call(info, orders(1)))


def test_newer_holder_fences_the_older_one(node: Node, info: TableInfo) -> None:
    old = acquire(node, info)
    task = begin(node, old, 1)
    new = acquire(node, info)

    for act in (
        lambda: node.owners.renew(old),
        lambda: node.owners.begin(old, 2),
        lambda: node.owners.commit(old, 1),
        lambda: node.owners.undo(old),
        lambda: node.owners.leave(old),
        lambda: node.tables.write(owned(info, task, ONE, 3)),
        lambda: node.owners.stage(owned(info, task, ONE, 3)),
    ):
        with pytest.raises(FencedError):
            act()
    assert node.owners.renew(new) == TTL_MS


def test_owner_that_left_its_epochs_writes_outside_them(node: Node, info: TableInfo) -> None:
    session = acquire(node, info)
    task = begin(node, session, 1)
    node.tables.write(owned(info, task, ONE, 3))

    assert node.owners.leave(session).rows_removed == 1
    token = OwnerToken.from_bytes(task)
    outside = token.at(fence=token.fence, epoch=NO_EPOCH).to_bytes()
    node.tables.write(replace(write_call(info, orders(4, note="own")), owner=outside))

    assert notes(node, info) == {1: "a", 2: "a", 4: "own"}


def test_dropped_owner_is_forgotten_with_what_it_left(node: Node, info: TableInfo) -> None:
    session = acquire(node, info)
    node.tables.write(owned(info, begin(node, session, 1), ONE, 3))

    assert node.owners.drop(info.table_id, "job").rows_removed == 1

    assert node.owners.list() == []
    with pytest.raises(PenstockError):
        node.owners.renew(session)


def test_owner_of_another_incarnation_is_refused(node: Node, info: TableInfo) -> None:
    acquire(node, info, incarnation="query-1")

    with pytest.raises(ConflictError):
        acquire(node, info, incarnation="query-2")


def test_token_that_is_none_is_refused(node: Node, info: TableInfo) -> None:
    for junk in (b"", b"junk", acquire(node, info)[:-1]):
        with pytest.raises(InvalidError):
            node.owners.renew(junk)
        with pytest.raises(InvalidError):
            node.tables.write(replace(write_call(info, orders(1)), owner=junk))


def test_tables_without_owners_and_tables_that_are_gone_refuse(node: Node, info: TableInfo) -> None:
    plain = make_table(node, path="shop.plain", properties={"column-lock.enabled": "false"})
    session = acquire(node, info)
    node.catalog.drop_table(info.path)

    with pytest.raises(UnsupportedError):
        acquire(node, plain)
    with pytest.raises(TableNotFoundError):
        acquire(node, info)
    with pytest.raises(TableNotFoundError):
        node.owners.begin(session, 1)
