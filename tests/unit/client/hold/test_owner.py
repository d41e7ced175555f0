"""The owner that users hold: the tokens that it gives out, and its renewal in the background."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable

import pytest
from tests.kit.client_node import ClientNode
from tests.kit.waiting import wait_until

from penstock.client.table import Table
from penstock.errors import FencedError, InvalidError, UnavailableError
from penstock.model.node.owner import AcquireOwner
from penstock.model.node.owner_token import OwnerToken

ATTEMPT = uuid.UUID(int=7)


@pytest.fixture
def table(make_table: Callable[..., Table]) -> Table:
    return make_table(properties={"column-lock.enabled": "true"})


def test_token_follows_the_epoch(table: Table) -> None:
    owner = table.acquire_owner("job", ["v"], ttl="1min")
    outside = OwnerToken.from_bytes(owner.token())

    owner.begin(5)
    inside = OwnerToken.from_bytes(owner.token(5))
    owner.commit(5)

    assert (outside.epoch, outside.fence) == (-1, 1)
    assert (inside.epoch, inside.fence, inside.session) == (5, 2, 1)
    assert OwnerToken.from_bytes(owner.token()).epoch == -1
    assert (owner.committed_epoch, owner.epoch, owner.columns, owner.fence) == (5, None, ("v",), 1)
    owner.release()


def test_committed_epoch_is_not_open(table: Table) -> None:
    owner = table.acquire_owner("job")
    owner.begin(0)
    owner.commit(0)

    assert owner.begin(0) == "committed"

    with pytest.raises(InvalidError, match="begin the epoch"):
        owner.token(0)
    owner.release()


def test_undo_closes_the_epoch(table: Table, node: ClientNode) -> None:
    owner = table.acquire_owner("job")
    owner.begin(5)

    owner.undo()

    assert owner.epoch is None
    assert "owners.undo" in node.calls
    owner.release()


def test_leaving_closes_the_epoch(table: Table, node: ClientNode) -> None:
    owner = table.acquire_owner("job")
    owner.begin(5)

    owner.leave()

    assert owner.epoch is None
    assert "owners.leave" in node.calls
    owner.release()


@pytest.mark.parametrize(
    "attempts",
    [{ATTEMPT: 3}, {ATTEMPT.bytes: 3}, [(ATTEMPT, 3)], [(str(ATTEMPT), 3)]],
)
def test_attempts_are_named_in_any_form(table: Table, node: ClientNode, attempts: object) -> None:
    owner = table.acquire_owner("job")
    owner.begin(5)
    table.stage([{"id": n, "v": "a"} for n in range(3)], owner=owner, attempt=ATTEMPT)

    owner.commit(5, attempts=attempts)  # type: ignore[arg-type]

    assert owner.committed_epoch == 5
    assert table.scan().to_arrow().num_rows == 3
    owner.release()


@pytest.mark.parametrize("attempt", ["x", b"short", "0" * 31])
def test_attempt_that_is_no_uuid_is_refused(table: Table, attempt: str | bytes) -> None:
    with pytest.raises(InvalidError, match="uuid"):
        table.upsert([{"id": 1, "v": "a"}], attempt=attempt)


def test_rows_of_an_end_may_be_given_by_bucket(table: Table, node: ClientNode) -> None:
    owner = table.acquire_owner("job")
    owner.begin(5)
    table.upsert([{"id": n, "v": "a"} for n in range(2)], owner=owner, attempt=ATTEMPT)
    buckets = dict.fromkeys(node.catalog.buckets(table.info.table_id), 2)

    assert table.end_attempt(owner=owner, attempt=ATTEMPT, rows=buckets).rows == 2 * len(buckets)
    owner.release()


def test_writer_ends_its_attempt_with_the_rows_it_wrote(table: Table, node: ClientNode) -> None:
    owner = table.acquire_owner("job")
    owner.begin(5)

    with table.writer(owner=owner, attempt=ATTEMPT) as writer:
        writer.upsert([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])

    assert writer.attempt_end is not None
    assert (writer.attempt_end.attempt, writer.attempt_end.rows) == (ATTEMPT.bytes, 2)
    assert {call.attempt for call in node.writes} == {ATTEMPT.bytes}
    owner.release()


def test_owner_is_renewed_until_it_is_released(table: Table, node: ClientNode) -> None:
    owner = table.acquire_owner("job", ttl="30ms")

    wait_until(lambda: node.calls.count("owners.renew") >= 3)

    owner.release()
    assert [found.held for found in node.owners.list()] == [False]
    wait_until(lambda: not renewing())


def test_owner_that_is_lost_says_so_when_its_block_ends(table: Table, node: ClientNode) -> None:
    def work() -> None:
        with table.acquire_owner("job", ttl="30ms") as owner:
            newer = AcquireOwner(table.info.table_id, "job", None, 60_000)
            node.engine.owners.acquire(newer)
            wait_until(lambda: owner.failure is not None)

    with pytest.raises(FencedError, match="acquired by another since"):
        work()
    assert "owners.release" not in node.calls


def test_renewal_that_fails_for_a_while_is_tried_again_and_told_once(
    table: Table, node: ClientNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, logger="penstock")
    node.rules.refuse("owners.renew", *(UnavailableError("away") for _ in range(5)))

    with table.acquire_owner("job", ttl="30ms") as owner:
        wait_until(lambda: node.calls.count("owners.renew") >= 7)
        assert owner.failure is None

    assert caplog.text.count("owner was not renewed, trying again id=job") == 1


def test_forgotten_owner_is_renewed_no_more(table: Table) -> None:
    table.acquire_owner("job", ttl="30ms")

    wait_until(lambda: not renewing())


def renewing() -> bool:
    return any(thread.name == "penstock-owner-job" for thread in threading.enumerate())


def test_token_that_was_changed_is_refused() -> None:
    token = OwnerToken(7, 1, "jöb", 2, 3, 4)
    data = token.to_bytes()

    assert OwnerToken.from_bytes(data) == token
    for position in range(len(data)):
        damaged = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        with pytest.raises(InvalidError):
            OwnerToken.from_bytes(damaged)
    with pytest.raises(InvalidError):
        OwnerToken.from_bytes(data[:-1])
