"""Owners: who may write which columns, until when, and what of it stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.owner_rig import OwnerRig

from penstock.errors import (
    ConflictError,
    FencedError,
    InvalidError,
    LockedError,
    NotLeaderError,
    OwnerNotFoundError,
    PermissionDeniedError,
    UnsupportedError,
)
from penstock.model.node.owner import AcquireOwner, EpochStatus
from penstock.model.node.principal import ANONYMOUS, LOCAL

DDL = "k BIGINT, a BIGINT, b BIGINT, x BIGINT, PRIMARY KEY (k)"
LOCKED = {"column-lock.enabled": "true"}


@pytest.fixture
def rig() -> Iterator[OwnerRig]:
    rig = OwnerRig(DDL, buckets=2, properties=LOCKED)
    yield rig
    rig.close()


@pytest.fixture
def free_rig() -> Iterator[OwnerRig]:
    rig = OwnerRig(DDL)
    yield rig
    rig.close()


def row(k: int, **values: int) -> dict[str, Any]:
    return {"k": k, "a": None, "b": None, "x": None} | values


def test_held_column_is_refused_to_writers_without_the_owner(rig: OwnerRig) -> None:
    rig.acquire("job", "a", ttl_ms=90_000)

    with pytest.raises(LockedError, match="holder=job columns=\\['a'\\] remaining=") as caught:
        rig.write([{"k": 1, "a": 1}], columns=["a"])

    assert caught.value.facts["holder"] == "job"
    assert rig.rows() == []


def test_columns_that_nobody_holds_are_free_to_all(rig: OwnerRig) -> None:
    rig.acquire("job", "a")

    rig.write([{"k": 1, "x": 1}], columns=["x"])
    rig.write([{"k": 1, "x": 2}], columns=["x"])

    assert rig.rows() == [row(1, x=2)]


def test_two_owners_of_disjoint_columns_work_side_by_side(rig: OwnerRig) -> None:
    left, right = rig.acquire("left", "a"), rig.acquire("right", "b")

    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=left)
    rig.write([{"k": 1, "b": 2}], columns=["b"], owner=right)

    assert rig.rows() == [row(1, a=1, b=2)]


def test_owner_may_not_write_columns_it_does_not_hold(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")

    with pytest.raises(InvalidError, match="does not hold"):
        rig.write([{"k": 1, "x": 1}], columns=["x"], owner=owner)
    with pytest.raises(InvalidError, match=r"columns=\['b', 'x'\]"):
        rig.write([row(1, a=1)], owner=owner)


def test_delete_writes_every_column(rig: OwnerRig) -> None:
    rig.write([row(1, a=1)])
    left = rig.acquire("left", "a")
    rig.acquire("right", "b")

    with pytest.raises(LockedError):
        rig.delete([{"k": 1}])
    with pytest.raises(LockedError, match="holder=right"):
        rig.delete([{"k": 1}], owner=left)

    assert rig.rows() == [row(1, a=1)]


def test_owner_deletes_where_no_other_holds_columns(rig: OwnerRig) -> None:
    rig.write([row(1, a=1)])
    owner = rig.acquire("job", "a")

    rig.delete([{"k": 1}], owner=owner)

    assert rig.rows() == []


def test_acquiring_held_columns_names_holder_columns_and_time_left(rig: OwnerRig) -> None:
    rig.acquire("job", "a", "b", ttl_ms=5_000)
    rig.clock.advance(1_000)

    with pytest.raises(LockedError) as caught:
        rig.acquire("other", "b", "x")

    assert caught.value.facts == {
        "holder": "job",
        "columns": ["a", "b"],
        "remaining": "4s",
        "remaining_ms": 4_000,
        "held_by": "test",
    }


def test_same_id_again_fences_the_older_holder(rig: OwnerRig) -> None:
    old = rig.acquire("job", "a")
    task = rig.begin(old, 1)

    new = rig.acquire("job", "a")

    assert new.session > old.session
    for act in (
        lambda: rig.write([{"k": 1, "a": 1}], columns=["a"], owner=task),
        lambda: rig.write([{"k": 1, "a": 1}], columns=["a"], owner=old),
        lambda: rig.owners.renew(old),
        lambda: rig.owners.begin(old, 2),
        lambda: rig.owners.commit(old, 1, None),
        lambda: rig.owners.undo(old),
    ):
        with pytest.raises(FencedError):
            act()
    rig.owners.leave(new)
    rig.write([{"k": 1, "a": 2}], columns=["a"], owner=new)


def test_write_outside_epochs_is_not_made_on_top_of_an_open_one(rig: OwnerRig) -> None:
    rig.write([{"k": 1, "a": 7}], columns=["a"], owner=rig.begin(rig.acquire("job", "a"), 1))

    again = rig.acquire("job", "a")

    with pytest.raises(ConflictError, match="leave"):
        rig.write([{"k": 1, "a": 5}], columns=["a"], owner=again)


def test_release_by_a_fenced_holder_changes_nothing(rig: OwnerRig) -> None:
    old = rig.acquire("job", "a")
    rig.acquire("job", "a")

    rig.owners.release(old)

    with pytest.raises(LockedError):
        rig.write([{"k": 1, "a": 1}], columns=["a"])


def test_released_columns_are_free_and_leftovers_undone(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=rig.begin(owner, 1))

    rig.owners.release(owner)
    rig.owners.release(owner)

    assert rig.rows() == []
    rig.write([{"k": 1, "a": 2}], columns=["a"])
    with pytest.raises(FencedError):
        rig.owners.renew(owner)


def test_another_incarnation_is_a_conflict_until_the_owner_is_dropped(rig: OwnerRig) -> None:
    rig.acquire("job", "a", incarnation="one")

    with pytest.raises(ConflictError, match="incarnation=one asked=two"):
        rig.acquire("job", "a", incarnation="two")

    rig.owners.drop("job", undo=True, principal=LOCAL)
    rig.acquire("job", "a", incarnation="two")


def test_epochs_begin_once_and_never_go_back(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")

    assert rig.owners.begin(owner, 5).status is EpochStatus.NEW
    rig.owners.commit(owner, 5, None)
    rig.owners.commit(owner, 5, None)

    assert rig.owners.begin(owner, 5).status is EpochStatus.COMMITTED
    with pytest.raises(ConflictError, match="drop_owner"):
        rig.owners.begin(owner, 4)
    with pytest.raises(ConflictError, match="not open"):
        rig.owners.commit(owner, 7, None)
    with pytest.raises(InvalidError):
        rig.owners.begin(owner, -1)


def test_nothing_writes_under_a_committed_epoch(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    task = rig.begin(owner, 5)
    rig.owners.commit(owner, 5, None)

    with pytest.raises(FencedError, match="not open"):
        rig.write([{"k": 1, "a": 1}], columns=["a"], owner=task)


def test_begin_undoes_what_was_not_committed_and_fences_its_tasks(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    first = rig.begin(owner, 1)
    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=first)

    again = rig.begin(owner, 1)

    assert rig.rows() == []
    with pytest.raises(FencedError):
        rig.write([{"k": 2, "a": 1}], columns=["a"], owner=first)
    rig.write([{"k": 2, "a": 2}], columns=["a"], owner=again)


def test_write_outside_an_epoch_is_committed_at_once(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")

    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=owner)
    rig.owners.undo(owner)

    assert rig.rows() == [row(1, a=1)]
    assert rig.pins() == []


def test_owner_pins_only_while_it_has_uncommitted_changes(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    task = rig.begin(owner, 1)
    assert rig.pins() == []

    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=task)
    assert rig.pins() == ["owner-0"]

    rig.owners.commit(owner, 1, None)
    assert rig.pins() == []


def test_expiry_alone_changes_nothing(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a", ttl_ms=1_000)
    task = rig.begin(owner, 1)
    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=task)

    rig.clock.advance(5_000)

    rig.write([{"k": 2, "a": 1}], columns=["a"], owner=task)
    rig.owners.renew(owner)
    rig.owners.commit(owner, 1, None)
    assert rig.rows() == [row(1, a=1), row(2, a=1)]


def test_taking_expired_columns_undoes_their_open_epoch_first(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a", ttl_ms=1_000)
    task = rig.begin(owner, 1)
    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=task)
    rig.clock.advance(1_000)

    rig.acquire("heir", "a", "b")

    assert rig.rows() == []
    assert rig.pins() == []
    for act in (
        lambda: rig.owners.renew(owner),
        lambda: rig.owners.begin(owner, 1),
        lambda: rig.owners.commit(owner, 1, None),
        lambda: rig.write([{"k": 1, "a": 1}], columns=["a"], owner=task),
    ):
        with pytest.raises(FencedError):
            act()


def test_write_to_expired_columns_undoes_leftovers_and_is_applied(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a", ttl_ms=1_000)
    task = rig.begin(owner, 1)
    rig.write([{"k": 1, "a": 1}, {"k": 2, "a": 1}], columns=["a"], owner=task)
    rig.clock.advance(1_000)

    rig.write([{"k": 1, "a": 7}], columns=["a"])

    assert rig.rows() == [row(1, a=7)]
    with pytest.raises(ConflictError, match="not open"):
        rig.owners.commit(owner, 1, None)
    rig.owners.renew(owner)
    assert rig.begin(owner, 1).fence > task.fence


def test_at_least_a_minute_remains_after_a_restart(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a", ttl_ms=1_000)
    rig.clock.advance(10_000)

    rig.crash(0, power_loss=False)

    rig.clock.advance(59_999)
    with pytest.raises(LockedError):
        rig.write([{"k": 1, "a": 1}], columns=["a"])
    rig.owners.renew(owner)


def test_uncommitted_changes_are_pinned_again_after_a_restart(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    rig.write([{"k": 1, "x": 1}], columns=["x"])
    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=rig.begin(owner, 1))

    rig.crash(0, power_loss=True)
    rig.compact()

    assert rig.pins() == ["owner-0"]
    assert rig.owners.undo(owner).keys == 1
    assert rig.rows() == [row(1, x=1)]


def test_abandoned_epoch_is_undone_by_the_server(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=rig.begin(owner, 1))

    rig.clock.advance(rig.settings.owner_abandon_after_ms - 1)
    rig.owners.reap()
    assert rig.pins() == ["owner-0"]

    rig.clock.advance(1)
    rig.owners.reap()
    assert rig.rows() == []
    assert rig.pins() == []


def test_unused_owner_is_forgotten_after_its_retention(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    rig.owners.begin(owner, 3)
    rig.owners.commit(owner, 3, None)

    rig.clock.advance(rig.settings.owner_retention_ms)
    rig.owners.reap()

    assert rig.owners.infos() == []
    assert rig.owners.begin(rig.acquire("job", "a"), 1).status is EpochStatus.NEW


def test_dropped_owner_leaves_its_rows_if_asked_and_its_tokens_are_void(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    task = rig.begin(owner, 1)
    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=task)

    rig.owners.drop("job", undo=False, principal=LOCAL)

    assert rig.rows() == [row(1, a=1)]
    assert rig.pins() == []
    rig.acquire("job", "a")
    with pytest.raises(FencedError):
        rig.write([{"k": 1, "a": 2}], columns=["a"], owner=task)
    with pytest.raises(OwnerNotFoundError):
        rig.owners.drop("nobody", undo=True, principal=LOCAL)


def test_owners_are_listed_with_what_is_pending(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a", ttl_ms=5_000)
    rig.write([{"k": 1, "a": 1}, {"k": 2, "a": 1}], columns=["a"], owner=rig.begin(owner, 3))

    (info,) = rig.owners.infos()

    assert (info.table, info.owner, info.columns) == ("t.t", "job", ("a",))
    assert (info.committed_epoch, info.open_epoch, info.rows_pending) == (-1, 3, 2)
    assert (info.holder, info.held, info.expires_in_ms) == ("test", True, 5_000)


def test_table_with_locks_switched_off_has_no_owners() -> None:
    rig = OwnerRig(DDL, properties={"column-lock.enabled": "false"})

    with pytest.raises(UnsupportedError, match=r"column-lock\.enabled=false"):
        rig.acquire("job", "a")
    rig.close()


def test_table_without_locks_has_owners_that_exclude_nobody(free_rig: OwnerRig) -> None:
    owner = free_rig.acquire("job", "a")
    free_rig.acquire("other", "a")
    task = free_rig.begin(owner, 1)

    free_rig.write([{"k": 1, "a": 1}, {"k": 2, "a": 1}], columns=["a"], owner=task)
    free_rig.write([{"k": 1, "a": 2}], columns=["a"])
    result = free_rig.owners.undo(owner)

    assert (result.keys, result.rows_removed, result.superseded) == (1, 1, 1)
    assert free_rig.rows() == [row(1, a=2)]


def test_aggregate_table_locks_by_itself() -> None:
    rig = OwnerRig("k BIGINT, a BIGINT SUM, b BIGINT SUM, PRIMARY KEY (k)", merge_engine="aggregate")
    owner = rig.acquire("job", "a")
    task = rig.begin(owner, 1)
    rig.write([{"k": 1, "b": 1}], columns=["b"])
    rig.write([{"k": 1, "a": 5}], columns=["a"], owner=task)
    rig.write([{"k": 1, "a": 5}], columns=["a"], owner=task)

    with pytest.raises(LockedError):
        rig.write([{"k": 1, "a": 1}], columns=["a"])
    assert rig.rows() == [{"k": 1, "a": 10, "b": 1}]
    rig.owners.undo(owner)
    assert rig.rows() == [{"k": 1, "a": None, "b": 1}]
    rig.close()


def test_owner_that_names_nothing_valid_is_refused(rig: OwnerRig) -> None:
    with pytest.raises(InvalidError, match="besides the key"):
        rig.acquire("job", "k")
    with pytest.raises(InvalidError, match="characters"):
        rig.acquire("", "a")
    with pytest.raises(InvalidError, match="longer than zero"):
        rig.owners.acquire(AcquireOwner(rig.table.info.table_id, "job", ("a",), 0), principal=LOCAL)


def test_token_of_another_table_is_refused(rig: OwnerRig, free_rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    foreign = type(owner)(owner.table_id + 1, owner.number, owner.owner, owner.session, owner.fence)

    with pytest.raises(InvalidError, match="another table"):
        free_rig.write([{"k": 1, "a": 1}], columns=["a"], owner=foreign)


def test_partition_dropped_under_an_open_epoch_needs_no_undo() -> None:
    rig = OwnerRig(
        "p BIGINT, k BIGINT, a BIGINT, PRIMARY KEY (p, k)", partitioned_by=["p"], bucket_key=["k"], properties=LOCKED
    )
    owner = rig.acquire("job", "a")
    task = rig.begin(owner, 1)
    rig.write([{"p": 1, "k": 1, "a": 1}, {"p": 2, "k": 1, "a": 1}], columns=["a"], owner=task)
    (gone,) = (partition for partition in rig.table.partitions() if "1" in partition.name)
    rig.table.drop_partition(gone)

    result = rig.owners.undo(owner)

    assert (result.keys, rig.rows(), rig.pins()) == (1, [], [])
    rig.close()


def test_bucket_taken_up_again_is_pinned_and_undone(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    rig.write([{"k": k, "a": 1} for k in range(10)], columns=["a"], owner=rig.begin(owner, 1))
    bucket = next(iter(rig.table.committer.tablets))

    rig.table.step_down(bucket)
    with pytest.raises(NotLeaderError):
        rig.owners.undo(owner)
    rig.table.take_up(bucket)

    assert rig.pins() == ["owner-0", "owner-0"]
    rig.owners.undo(owner)
    assert (rig.rows(), rig.pins()) == ([], [])


def test_columns_of_an_expired_owner_are_free_to_other_principals(rig: OwnerRig) -> None:
    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=rig.begin(rig.acquire("job", "a", who="ann"), 1))
    rig.clock.advance(1_000)

    rig.acquire("heir", "a", who="bob")

    assert rig.rows() == []


def test_who_has_the_files_may_do_anything_with_an_owner(rig: OwnerRig) -> None:
    rig.acquire("job", "a", who="ann")

    rig.acquire("job", "a")
    rig.owners.drop("job", undo=True, principal=LOCAL)

    assert rig.owners.infos() == []


def test_owner_of_nobody_in_particular_belongs_to_the_first_who_says_who_he_is(rig: OwnerRig) -> None:
    rig.acquire("job", "a", who=ANONYMOUS)

    rig.acquire("job", "a", who="ann")

    with pytest.raises(PermissionDeniedError):
        rig.acquire("job", "a", who="bob")
