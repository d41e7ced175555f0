"""Attempts: the first to end wins, whoever else is late, doubled, dead or risen again."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.kit.owner_rig import OwnerRig, attempt_id

from penstock.errors import ConflictError, FencedError, InvalidError
from penstock.model.node.owner_token import OwnerToken
from penstock.model.node.principal import LOCAL

FIRST, SECOND, THIRD = attempt_id(1), attempt_id(2), attempt_id(3)


@pytest.fixture
def rig() -> Iterator[OwnerRig]:
    rig = OwnerRig("k BIGINT, a BIGINT SUM, PRIMARY KEY (k)", merge_engine="aggregate", buckets=2)
    yield rig
    rig.close()


def write(rig: OwnerRig, task: OwnerToken, attempt: bytes, *keys: int) -> bool:
    return rig.write([{"k": k, "a": 1} for k in keys], owner=task, attempt=attempt).done


def sums(rig: OwnerRig) -> dict[int, int]:
    return {row["k"]: row["a"] for row in rig.rows()}


def test_new_attempt_takes_back_what_an_older_one_did_not_end(rig: OwnerRig) -> None:
    task = rig.begin(rig.acquire("job"), 1)
    write(rig, task, FIRST, 1, 2, 3)

    write(rig, task, SECOND, 1, 2, 3)

    assert sums(rig) == {1: 1, 2: 1, 3: 1}
    with pytest.raises(FencedError, match="newer attempt"):
        write(rig, task, FIRST, 4)
    with pytest.raises(FencedError, match="newer attempt"):
        rig.end(task, FIRST, 3)


def test_first_attempt_to_end_wins_and_a_late_twin_is_done(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    write(rig, task, FIRST, 1, 2, 3)
    assert rig.end(task, FIRST, 3).done is False

    assert write(rig, task, SECOND, 1, 2, 3) is True

    assert sums(rig) == {1: 1, 2: 1, 3: 1}
    lost = rig.end(task, SECOND, 3)
    assert (lost.done, lost.attempt, lost.rows) == (True, FIRST, 3)
    rig.owners.commit(owner, 1, {FIRST: 3})
    assert sums(rig) == {1: 1, 2: 1, 3: 1}


def test_end_is_idempotent(rig: OwnerRig) -> None:
    task = rig.begin(rig.acquire("job"), 1)
    write(rig, task, FIRST, 1)

    assert rig.end(task, FIRST, 1) == rig.end(task, FIRST, 1)


@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("compacts", [False, True])
def test_ends_survive_a_restart(rig: OwnerRig, power_loss: bool, compacts: bool) -> None:
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    write(rig, task, FIRST, 1, 2, 3)
    rig.end(task, FIRST, 3)
    if compacts:
        rig.compact()

    rig.crash(1, power_loss=power_loss)

    assert write(rig, task, SECOND, 1, 2, 3) is True
    assert sums(rig) == {1: 1, 2: 1, 3: 1}
    rig.owners.commit(owner, 1, {FIRST: 3})


def test_attempt_that_was_taken_back_stays_fenced_after_a_restart(rig: OwnerRig) -> None:
    task = rig.begin(rig.acquire("job"), 1)
    write(rig, task, FIRST, 1)
    rig.write([{"k": 1, "a": 1}], owner=task, attempt=SECOND)

    rig.crash(0, power_loss=False)

    with pytest.raises(FencedError):
        write(rig, task, FIRST, 1)
    assert sums(rig) == {1: 1}


def test_commit_is_refused_while_an_attempt_has_not_ended(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    write(rig, task, FIRST, 1)

    with pytest.raises(ConflictError, match="has not ended"):
        rig.owners.commit(owner, 1, {FIRST: 1})
    with pytest.raises(ConflictError, match="has not ended"):
        rig.owners.commit(owner, 1, None)

    rig.end(task, FIRST, 1)
    with pytest.raises(ConflictError, match="rows=1 named=2"):
        rig.owners.commit(owner, 1, {FIRST: 2})
    with pytest.raises(ConflictError, match="not named"):
        rig.owners.commit(owner, 1, {SECOND: 1})
    with pytest.raises(ConflictError, match="missing"):
        rig.owners.commit(owner, 1, {FIRST: 1, SECOND: 1})
    rig.owners.commit(owner, 1, {FIRST: 1, THIRD: 0})


def test_end_with_the_wrong_count_is_refused(rig: OwnerRig) -> None:
    task = rig.begin(rig.acquire("job"), 1)
    write(rig, task, FIRST, 1, 2)

    with pytest.raises(ConflictError, match="rows=2 named=3"):
        rig.end(task, FIRST, 3)


def test_retried_call_counts_once(rig: OwnerRig) -> None:
    task = rig.begin(rig.acquire("job"), 1)
    for _ in range(2):
        rig.write([{"k": 1, "a": 1}], owner=task, attempt=FIRST, writer_id=attempt_id(9), sequence=0)

    assert rig.end(task, FIRST, 1).rows == 1
    assert sums(rig) == {1: 1}


def test_attempts_of_an_undone_try_of_the_epoch_are_fenced(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    write(rig, task, FIRST, 1)
    rig.end(task, FIRST, 1)

    again = rig.begin(owner, 1)

    with pytest.raises(FencedError):
        write(rig, task, FIRST, 1)
    assert write(rig, again, SECOND, 1) is False
    rig.end(again, SECOND, 1)
    rig.owners.commit(owner, 1, {SECOND: 1})
    assert sums(rig) == {1: 1}


def test_owner_undo_takes_back_all_attempts_but_nothing_twice(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    rig.write([{"k": 1, "a": 10}], owner=owner)
    task = rig.begin(owner, 1)
    write(rig, task, FIRST, 1)
    write(rig, task, SECOND, 1)
    rig.write([{"k": 1, "a": 5}], owner=task)

    rig.owners.undo(owner)

    assert sums(rig) == {1: 10}


def test_driver_and_attempt_share_a_key(rig: OwnerRig) -> None:
    task = rig.begin(rig.acquire("job"), 1)
    write(rig, task, FIRST, 2)
    rig.write([{"k": 1, "a": 5}], owner=task)

    write(rig, task, SECOND, 2)

    assert sums(rig) == {1: 5, 2: 1}


def test_attempt_outside_an_epoch_is_refused(rig: OwnerRig) -> None:
    owner = rig.acquire("job")

    with pytest.raises(InvalidError, match="belong to an epoch"):
        write(rig, owner, FIRST, 1)
    with pytest.raises(InvalidError, match="belong to an epoch"):
        rig.end(owner, FIRST, 1)


def test_attempts_that_race_leave_one_winner(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)

    def attempt(number: int) -> bytes | None:
        try:
            for k in range(5):
                call = rig.call([{"k": k, "a": 1}], owner=task, attempt=attempt_id(number))
                rig.table.write(call, principal=LOCAL)
            return rig.end(task, attempt_id(number), 5).attempt
        except FencedError:
            return None

    with ThreadPoolExecutor(8) as threads:
        winners = {winner for winner in threads.map(attempt, range(1, 9)) if winner is not None}

    if not winners:
        winners = {attempt(9) or b""}
    (winner,) = winners
    rig.owners.commit(owner, 1, {winner: 5})
    assert sums(rig) == dict.fromkeys(range(5), 1)
