"""The owner that users hold: the tokens it gives out, and how it is renewed behind their backs."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import pytest
from tests.unit.client.fake_node import FakeNode

from penstock.client.table import Table
from penstock.errors import FencedError, InvalidError
from penstock.model.node.owner_token import OwnerToken

ATTEMPT = uuid.UUID(int=7)


@pytest.fixture
def table(make_table: Callable[..., Table]) -> Table:
    return make_table()


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

    assert owner.begin(0) == "committed"

    with pytest.raises(InvalidError, match="begin the epoch"):
        owner.token(0)
    owner.release()


def test_undo_closes_the_epoch(table: Table, node: FakeNode) -> None:
    owner = table.acquire_owner("job")
    owner.begin(5)

    owner.undo()

    assert owner.epoch is None
    assert node.owner_calls[-1] == ("undo", "job")
    owner.release()


def test_leaving_closes_the_epoch(table: Table, node: FakeNode) -> None:
    owner = table.acquire_owner("job")
    owner.begin(5)

    owner.leave()

    assert owner.epoch is None
    assert node.owner_calls[-1] == ("leave", "job")
    owner.release()


@pytest.mark.parametrize(
    "attempts",
    [{ATTEMPT: 3}, {ATTEMPT.bytes: 3}, [(ATTEMPT, 3)], [(str(ATTEMPT), 3)]],
)
def test_attempts_are_named_in_any_form(table: Table, node: FakeNode, attempts: object) -> None:
    owner = table.acquire_owner("job")

    owner.commit(5, attempts=attempts)  # type: ignore[arg-type]

    assert node.owner_calls[-1] == ("commit", {ATTEMPT.bytes: 3})
    owner.release()


@pytest.mark.parametrize("attempt", ["x", b"short", "0" * 31])
def test_attempt_that_is_no_uuid_is_refused(table: Table, attempt: str | bytes) -> None:
    with pytest.raises(InvalidError, match="uuid"):
        table.upsert([{"id": 1, "v": "a"}], attempt=attempt)


def test_rows_of_an_end_may_be_given_by_bucket(table: Table, node: FakeNode) -> None:
    owner = table.acquire_owner("job")
    owner.begin(5)
    buckets = dict.fromkeys(node.buckets(table.info.table_id), 2)

    table.end_attempt(owner=owner, attempt=ATTEMPT, rows=buckets)

    assert node.owner_calls[-1] == ("end", (ATTEMPT.bytes, 2 * len(buckets)))
    owner.release()


def test_writer_ends_its_attempt_with_the_rows_it_wrote(table: Table, node: FakeNode) -> None:
    owner = table.acquire_owner("job")
    owner.begin(5)

    with table.writer(owner=owner, attempt=ATTEMPT) as writer:
        writer.upsert([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])

    assert node.owner_calls[-1] == ("end", (ATTEMPT.bytes, 2))
    assert writer.attempt_end is not None
    assert {call.attempt for call in node.applied} == {ATTEMPT.bytes}
    owner.release()


def test_owner_is_renewed_until_it_is_released(table: Table, node: FakeNode) -> None:
    owner = table.acquire_owner("job", ttl="30ms")

    assert node.renewed.wait(30)

    owner.release()
    assert node.owner_calls[-1] == ("release", "job")


def test_owner_that_is_lost_says_so_when_its_block_ends(table: Table, node: FakeNode) -> None:
    lost = FencedError("another owner took the columns")

    def work() -> None:
        with table.acquire_owner("job", ttl="30ms") as owner:
            node.owner_refusal = lost
            while owner.failure is None:
                node.renewed.wait(1)

    with pytest.raises(FencedError, match="took the columns"):
        work()
    assert node.owner_calls[-1] == ("acquire", "job")


def test_forgotten_owner_is_renewed_no_more(table: Table) -> None:
    before = threading.active_count()
    table.acquire_owner("job", ttl="30ms")

    while threading.active_count() > before:
        threading.Event().wait(0.01)


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
