"""Undo: what a bucket is like afterwards, key by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import pytest
from tests.kit.owner_rig import OwnerRig

from penstock.errors import LockedError, PenstockError
from penstock.model.node.calls import Operation
from penstock.model.node.owner_token import OwnerToken
from penstock.model.node.principal import LOCAL
from penstock.model.place.change import BatchKind
from penstock.testing.fault_plan import SimulatedCrash

DDL = "k BIGINT, a BIGINT, b BIGINT, x BIGINT, PRIMARY KEY (k)"


@pytest.fixture
def rig() -> Iterator[OwnerRig]:
    rig = OwnerRig(DDL, properties={"column-lock.enabled": "true"})
    yield rig
    rig.close()


def row(k: int, **values: int) -> dict[str, Any]:
    return {"k": k, "a": None, "b": None, "x": None} | values


def kinds(rig: OwnerRig) -> list[BatchKind]:
    (view,) = rig.table.view.values()
    directory = view.directory(0, view.visible)
    return [directory.facts(i).kind for i in range(len(directory))]


def test_columns_return_to_what_they_were_before_the_first_uncommitted_change(rig: OwnerRig) -> None:
    rig.write([row(1, a=1, x=1)])
    owner = rig.acquire("job", "a")
    task = rig.begin(owner, 1)
    rig.write([{"k": 1, "a": 2}], columns=["a"], owner=task)
    rig.write([{"k": 1, "x": 9}], columns=["x"])
    rig.write([{"k": 1, "a": 3}], columns=["a"], owner=task)

    result = rig.owners.undo(owner)

    assert rig.rows() == [row(1, a=1, x=9)]
    assert (result.keys, result.rows_removed, result.superseded) == (1, 0, 0)
    (per_bucket,) = result.buckets.values()
    assert per_bucket == (1, 0, 0)


def test_row_that_was_absent_goes_unless_another_made_it_live_on(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    task = rig.begin(owner, 1)
    rig.write([{"k": 1, "a": 1}, {"k": 2, "a": 1}], columns=["a"], owner=task)
    rig.write([{"k": 2, "x": 2}], columns=["x"])

    result = rig.owners.undo(owner)

    assert rig.rows() == [row(2, x=2)]
    assert (result.keys, result.rows_removed) == (2, 1)
    assert kinds(rig)[-2:] == [BatchKind.UNDO, BatchKind.ORPHAN]


def test_deleted_row_comes_back_as_it_was(rig: OwnerRig) -> None:
    rig.write([row(1, a=1, b=2, x=3)])
    owner = rig.acquire("job", "a")
    task = rig.begin(owner, 1)
    rig.write([{"k": 1, "a": 5}], columns=["a"], owner=task)
    rig.delete([{"k": 1}], owner=task)

    rig.owners.undo(owner)

    assert rig.rows() == [row(1, a=1, b=2, x=3)]


def test_columns_written_after_an_undone_delete_keep_their_new_values(rig: OwnerRig) -> None:
    rig.write([row(1, a=1, b=2, x=3)])
    owner = rig.acquire("job", "a")
    rig.delete([{"k": 1}], owner=rig.begin(owner, 1))
    rig.write([{"k": 1, "x": 9}], columns=["x"])

    rig.owners.undo(owner)

    assert rig.rows() == [row(1, a=1, b=2, x=9)]


def test_row_that_another_deleted_stays_deleted() -> None:
    rig = OwnerRig(DDL)
    rig.write([row(1, a=1)])
    owner = rig.acquire("job", "a")
    rig.write([{"k": 1, "a": 2}], columns=["a"], owner=rig.begin(owner, 1))
    rig.delete([{"k": 1}])

    result = rig.owners.undo(owner)

    assert rig.rows() == []
    assert result.superseded == 1
    rig.close()


def test_undo_writes_nothing_twice(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=rig.begin(owner, 1))
    rig.owners.undo(owner)
    (view,) = rig.table.view.values()

    assert rig.owners.undo(owner).keys == 0

    assert next(iter(rig.table.view.values())).visible == view.visible


def test_undo_bypasses_merge_engine_and_delete_behavior() -> None:
    rig = OwnerRig("k BIGINT, a BIGINT, PRIMARY KEY (k)", merge_engine="first_row")
    rig.write([{"k": 1, "a": 1}])
    owner = rig.acquire("job")
    rig.write([{"k": 2, "a": 2}], owner=rig.begin(owner, 1))

    rig.owners.undo(owner)

    assert rig.rows() == [{"k": 1, "a": 1}]
    rig.close()


def test_aggregates_return_to_their_committed_sums() -> None:
    ddl = "k BIGINT, a BIGINT SUM, b BIGINT MAX, PRIMARY KEY (k)"
    rig = OwnerRig(ddl, merge_engine="aggregate")
    owner = rig.acquire("job", "a", "b")
    rig.write([{"k": 1, "a": 5, "b": 7}], owner=rig.begin(owner, 1))
    rig.owners.commit(owner, 1, None)
    rig.write([{"k": 1, "a": 5, "b": 9}, {"k": 2, "a": 1, "b": 1}], owner=rig.begin(owner, 2))

    rig.owners.undo(owner)

    assert rig.rows() == [{"k": 1, "a": 5, "b": 7}]
    rig.close()


@pytest.mark.parametrize("order", list(permutations(("left", "right", "third"))))
def test_when_all_owners_are_undone_in_any_order_nobody_wrote(order: tuple[str, ...]) -> None:
    rig = OwnerRig(DDL, properties={"column-lock.enabled": "true"})
    rig.write([row(1, a=1, b=1, x=1)])
    columns = {"left": "a", "right": "b", "third": "x"}
    owners = {name: rig.acquire(name, column) for name, column in columns.items()}
    tasks = {name: rig.begin(owner, 1) for name, owner in owners.items()}
    for value, name in enumerate(("left", "right", "third", "right", "left"), 10):
        for key in (1, 2):
            rig.write([{"k": key, columns[name]: value}], columns=[columns[name]], owner=tasks[name])

    for name in order:
        rig.owners.undo(owners[name])

    assert rig.rows() == [row(1, a=1, b=1, x=1)]
    rig.close()


def test_row_lives_on_for_the_owner_that_commits(rig: OwnerRig) -> None:
    left, right = rig.acquire("left", "a"), rig.acquire("right", "b")
    first, second = rig.begin(left, 1), rig.begin(right, 1)
    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=first)
    rig.write([{"k": 1, "b": 2}], columns=["b"], owner=second)

    rig.owners.undo(left)
    rig.owners.commit(right, 1, None)

    assert rig.rows() == [row(1, b=2)]


def test_column_added_since_keeps_its_values(rig: OwnerRig) -> None:
    owner = rig.acquire("job", "a")
    task = rig.begin(owner, 1)
    rig.write([row(1, x=1)], columns=["x"])
    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=task)
    rig.add_column("y")
    rig.write([{"k": 1, "y": 4}], columns=["y"])

    rig.owners.undo(owner)

    assert rig.rows() == [row(1, x=1) | {"y": 4}]


def test_compaction_keeps_what_undo_needs(rig: OwnerRig) -> None:
    rig.write([row(1, a=1), row(2, a=2)])
    owner = rig.acquire("job", "a")
    task = rig.begin(owner, 1)
    rig.write([{"k": 1, "a": 5}], columns=["a"], owner=task)
    for value in range(10):
        rig.write([{"k": 1, "x": value}, {"k": 2, "x": value}], columns=["x"])
    rig.compact()

    rig.owners.undo(owner)
    rig.compact()

    assert rig.rows() == [row(1, a=1, x=9), row(2, a=2, x=9)]


def test_undo_of_many_keys_is_one_pass(rig: OwnerRig) -> None:
    keys = range(5_000)
    rig.write([row(k, a=k) for k in keys])
    owner = rig.acquire("job", "a")
    task = rig.begin(owner, 1)
    rig.write([{"k": k, "a": -k} for k in keys], columns=["a"], owner=task)

    assert rig.owners.undo(owner).keys == len(keys) - 1

    assert rig.rows() == [row(k, a=k) for k in keys]


@pytest.mark.parametrize("operation", range(12))
@pytest.mark.parametrize("power_loss", [False, True])
def test_undo_that_was_cut_short_is_finished_by_the_next(operation: int, power_loss: bool) -> None:
    rig = OwnerRig(DDL, buckets=3, properties={"column-lock.enabled": "true"})
    rig.write([row(k, a=k) for k in range(20)])
    owner = rig.acquire("job", "a")
    task = rig.begin(owner, 1)
    rig.write([{"k": k, "a": -1} for k in range(40)], columns=["a"], owner=task)
    rig.disk.crash_at(rig.disk.operations + operation, done=0.5)

    crashed = _crashes(lambda: rig.owners.undo(owner))
    rig.crash(operation, power_loss=power_loss)
    rig.owners.undo(owner)

    assert crashed or operation > 5
    assert rig.rows() == [row(k, a=k) for k in range(20)]
    rig.close()


def test_undo_is_ordinary_changes_in_the_log(rig: OwnerRig) -> None:
    rig.write([row(1, a=1)])
    owner = rig.acquire("job", "a")
    rig.write([{"k": 1, "a": 2}, {"k": 2, "a": 2}], columns=["a"], owner=rig.begin(owner, 1))
    (view,) = rig.table.view.values()
    before = view.visible

    rig.owners.undo(owner)

    (view,) = rig.table.view.values()
    changes = [
        c for block in view.changes(before, view.visible, rig.table.schema.storage) for c in block.batch.to_pylist()
    ]
    assert [(change["_op"], change["_prev"]) for change in changes] == [(2, 2), (1, 1)]


def _crashes(act: Callable[[], object]) -> bool:
    try:
        act()
    except (SimulatedCrash, OSError, PenstockError):
        return True
    return False


def test_clearing_columns_is_undone_like_any_write(rig: OwnerRig) -> None:
    rig.write([row(1, a=1)])
    owner = rig.acquire("job", "a")
    task: OwnerToken = rig.begin(owner, 1)
    call = rig.call([{"k": 1}], operation=Operation.DELETE, owner=task)
    rig.table.write(
        type(call)(call.table_id, call.schema_id, call.operation, call.batch, ("a",), owner=call.owner), principal=LOCAL
    )
    assert rig.rows() == []

    rig.owners.undo(owner)

    assert rig.rows() == [row(1, a=1)]


@pytest.mark.parametrize("engine", ["last_row", "aggregate"])
def test_owner_of_a_required_column_excludes_whoever_would_build_on_its_rows(engine: str) -> None:
    function = "SUM" if engine == "aggregate" else ""
    ddl = f"k BIGINT, a BIGINT NOT NULL {function}, b BIGINT {function}, PRIMARY KEY (k)"
    rig = OwnerRig(ddl, merge_engine=engine, properties={"column-lock.enabled": "true"})
    owner = rig.acquire("job", "a")
    rig.write([{"k": 1, "a": 1}], columns=["a"], owner=rig.begin(owner, 1))

    with pytest.raises(LockedError, match=r"holder=job columns=\['a', 'b'\]"):
        rig.write([{"k": 1, "b": 7}], columns=["b"])
    with pytest.raises(LockedError, match="holder=job"):
        rig.acquire("other", "b")
    rig.owners.undo(owner)

    assert rig.rows() == []
    rig.close()


def test_owner_of_columns_that_may_be_null_excludes_nobody_else_from_a_table_with_a_required_one() -> None:
    ddl = "k BIGINT, a BIGINT NOT NULL, b BIGINT, c BIGINT, PRIMARY KEY (k)"
    rig = OwnerRig(ddl, properties={"column-lock.enabled": "true"})
    rig.write([{"k": 1, "a": 1, "b": None, "c": None}])
    owner = rig.acquire("job", "b")
    rig.acquire("other", "c")
    rig.write([{"k": 1, "b": 7}], columns=["b"], owner=rig.begin(owner, 1))
    rig.write([{"k": 1, "a": 2}], columns=["a"])

    rig.owners.undo(owner)

    assert rig.rows() == [{"k": 1, "a": 2, "b": None, "c": None}]
    rig.close()


def test_without_locks_a_row_that_undo_would_leave_without_a_required_value_is_left_alone() -> None:
    rig = OwnerRig("k BIGINT, a BIGINT NOT NULL, b BIGINT, PRIMARY KEY (k)")
    owner = rig.acquire("job")
    rig.write([{"k": 1, "a": 5}, {"k": 2, "a": 6}], columns=["a"], owner=rig.begin(owner, 1))
    rig.write([{"k": 1, "b": 7}], columns=["b"])

    result = rig.owners.undo(owner)

    assert (result.keys, result.rows_removed, result.superseded) == (1, 1, 1)
    assert rig.rows() == [{"k": 1, "a": 5, "b": 7}]
    rig.write([{"k": 1, "b": 8}], columns=["b"])
    assert rig.rows() == [{"k": 1, "a": 5, "b": 8}]
    rig.close()
