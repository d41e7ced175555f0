"""What a write needs beyond the columns it names: a row that goes is every column's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.owner_rig import OwnerRig

from penstock.errors import InvalidError, LockedError
from penstock.model.node.calls import Operation, WriteCall
from penstock.model.node.owner_token import OwnerToken
from penstock.model.node.principal import LOCAL

DDL = "k BIGINT, s BIGINT SUM, n BIGINT COUNT, b BIGINT SUM, PRIMARY KEY (k)"


@pytest.fixture
def rig() -> Iterator[OwnerRig]:
    properties = {"aggregate.delete-at-zero": "n", "delete.behavior": "allow"}
    rig = OwnerRig(DDL, merge_engine="aggregate", properties=properties)
    yield rig
    rig.close()


@pytest.fixture
def plain_rig() -> Iterator[OwnerRig]:
    rig = OwnerRig("k BIGINT, a BIGINT, b BIGINT, PRIMARY KEY (k)", properties={"column-lock.enabled": "true"})
    yield rig
    rig.close()


def changes(rig: OwnerRig, owner: OwnerToken | None, *kinds: str, **facts: Any) -> WriteCall:
    """Return a call that applies changes of key 1, each of the value 5."""
    call = rig.call([{"k": 1, "s": 5, "n": 1}] * len(kinds), columns=["s", "n"], owner=owner, **facts)
    batch = call.batch.append_column("_change_type", pa.array(kinds))
    return replace(call, operation=Operation.APPLY, batch=batch, columns=None)


def test_row_whose_count_is_down_to_zero_stays_while_another_holds_a_column(rig: OwnerRig) -> None:
    left, right = rig.acquire("left", "s", "n"), rig.acquire("right", "b")
    rig.table.write(changes(rig, left, "+I"), principal=LOCAL)
    rig.write([{"k": 1, "b": 7}], columns=["b"], owner=right)

    with pytest.raises(LockedError, match="holder=right"):
        rig.table.write(changes(rig, left, "-D"), principal=LOCAL)
    with pytest.raises(LockedError, match="holder=left"):
        rig.table.write(changes(rig, None, "-D"), principal=LOCAL)

    assert rig.rows() == [{"k": 1, "s": 5, "n": 1, "b": 7}]


def test_values_are_taken_back_beside_another_owner_while_the_row_stays(rig: OwnerRig) -> None:
    left = rig.acquire("left", "s", "n")
    rig.acquire("right", "b")
    rig.table.write(changes(rig, left, "+I", "+I"), principal=LOCAL)

    rig.table.write(changes(rig, left, "-U", "+U"), principal=LOCAL)
    rig.table.write(changes(rig, left, "-D"), principal=LOCAL)

    assert rig.rows() == [{"k": 1, "s": 5, "n": 1, "b": None}]


def test_row_goes_when_the_other_owner_has_let_go(rig: OwnerRig) -> None:
    left, right = rig.acquire("left", "s", "n"), rig.acquire("right", "b")
    rig.table.write(changes(rig, left, "+I"), principal=LOCAL)
    rig.owners.release(right)

    rig.table.write(changes(rig, left, "-D"), principal=LOCAL)

    assert rig.rows() == []


def test_leftovers_of_an_expired_owner_are_undone_before_the_row_goes(rig: OwnerRig) -> None:
    left, right = rig.acquire("left", "s", "n", ttl_ms=90_000), rig.acquire("right", "b", ttl_ms=1_000)
    rig.table.write(changes(rig, left, "+I"), principal=LOCAL)
    rig.write([{"k": 1, "b": 7}, {"k": 2, "b": 7}], columns=["b"], owner=rig.begin(right, 1))
    rig.clock.advance(1_000)

    rig.table.write(changes(rig, left, "-U", "+U"), principal=LOCAL)
    assert rig.pins() == ["owner-1"]
    rig.table.write(changes(rig, left, "-D"), principal=LOCAL)

    assert (rig.rows(), rig.pins()) == ([], [])


def test_retry_of_a_write_that_was_made_is_answered(rig: OwnerRig) -> None:
    left = rig.acquire("left", "s", "n")
    rig.acquire("right", "b")
    rig.table.write(changes(rig, left, "+I", "+I"), principal=LOCAL)
    call = changes(rig, left, "-D", writer_id=b"w" * 16, sequence=0)

    first = rig.table.write(call, principal=LOCAL)

    assert rig.table.write(call, principal=LOCAL).offsets == first.offsets
    assert rig.rows() == [{"k": 1, "s": 5, "n": 1, "b": None}]


def test_clearing_the_last_column_needs_every_column(plain_rig: OwnerRig) -> None:
    rig = plain_rig
    rig.write([{"k": 1, "a": 1, "b": None}, {"k": 2, "a": 1, "b": 2}])
    left = rig.acquire("left", "a")
    rig.acquire("right", "b")

    def clear(key: int) -> None:
        call = rig.call([{"k": key}], operation=Operation.DELETE, owner=left)
        rig.table.write(replace(call, columns=("a",)), principal=LOCAL)

    clear(2)
    with pytest.raises(LockedError, match="holder=right"):
        clear(1)

    assert rig.rows() == [{"k": 1, "a": 1, "b": None}, {"k": 2, "a": None, "b": 2}]


def test_staged_rows_that_would_remove_a_row_are_not_committed_while_another_holds_a_column(rig: OwnerRig) -> None:
    left = rig.acquire("left", "s", "n")
    rig.table.write(changes(rig, left, "+I"), principal=LOCAL)
    attempt = b"a" * 16
    rig.owners.staged.stage(changes(rig, rig.begin(left, 1), "-D", attempt=attempt))
    right = rig.acquire("right", "b")

    with pytest.raises(LockedError, match="holder=right"):
        rig.owners.commit(left, 1, {attempt: None})
    assert rig.rows() == [{"k": 1, "s": 5, "n": 1, "b": None}]

    rig.owners.release(right)
    rig.owners.commit(left, 1, {attempt: None})
    assert rig.rows() == []


def test_new_properties_are_in_force_at_once(rig: OwnerRig) -> None:
    rig.table.write(changes(rig, None, "+I"), principal=LOCAL)
    rig.set_properties({"delete.behavior": "ignore"})

    rig.delete([{"k": 1}])

    assert rig.rows() == [{"k": 1, "s": 5, "n": 1, "b": None}]


def test_rows_go_in_an_epoch_only_if_its_owner_holds_every_column(rig: OwnerRig) -> None:
    rig.write([{"k": 1, "b": 6}], columns=["b"])
    left = rig.acquire("left", "s", "n")
    task = rig.begin(left, 1)
    rig.table.write(changes(rig, task, "+I"), principal=LOCAL)

    with pytest.raises(InvalidError, match="holds every column"):
        rig.table.write(changes(rig, task, "-D"), principal=LOCAL)
    with pytest.raises(InvalidError, match="holds every column"):
        rig.delete([{"k": 1}], owner=task)
    rig.owners.release(left)

    whole = rig.acquire("whole")
    task = rig.begin(whole, 1)
    rig.delete([{"k": 1}], owner=task)
    with pytest.raises(LockedError):
        rig.write([{"k": 1, "b": 4}], columns=["b"])
    rig.owners.undo(whole)
    assert rig.rows() == [{"k": 1, "s": None, "n": None, "b": 6}]


def test_column_that_is_added_after_a_write_was_routed_is_not_of_that_write(plain_rig: OwnerRig) -> None:
    rig = plain_rig
    rig.write([{"k": 1, "a": 1, "b": 1}])
    owner = rig.acquire("job", "a", "b")
    call = rig.call([{"k": 1, "a": 2, "b": 2}], owner=rig.begin(owner, 1))
    routed = rig.table.route(call)
    rig.add_column("c")
    other = rig.acquire("other", "c")

    guard = rig.table.committer.guard
    assert guard is not None
    guard.stamp(call, routed, principal=LOCAL)
    rig.table.committer.write(routed)
    rig.write([{"k": 1, "c": 3}], columns=["c"], owner=other)
    rig.owners.undo(owner)

    assert rig.rows() == [{"k": 1, "a": 1, "b": 1, "c": 3}]
