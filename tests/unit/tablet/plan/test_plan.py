"""The plan: what a request changes, what ends, where keys point afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.tablet.merge.last_row import LastRow
from penstock.tablet.plan.plan import Plan

RULE = LastRow((0,))
Planning = Callable[..., Plan]
Told = Callable[[Plan], list[tuple[str, int, tuple[Any, ...]]]]


def pointers(plan: Plan) -> list[int]:
    return plan.index_offsets.tolist()


def ended(plan: Plan) -> dict[int, int]:
    return dict(zip(plan.ended.tolist(), plan.ended_at.tolist(), strict=True))


def test_new_keys_are_inserts_that_end_nothing(plan: Planning, told: Told) -> None:
    made = plan(RULE, [(2, "b", 2), (1, "a", 1)])

    assert told(made) == [("insert", -1, (2, "b", 2)), ("insert", -1, (1, "a", 1))]
    assert ended(made) == {}
    assert pointers(made) == [101, 100]
    assert (made.base_offset, made.end_offset) == (100, 102)


def test_known_key_is_an_update_that_ends_its_row(plan: Planning, told: Told) -> None:
    made = plan(RULE, [(1, "new", 1)], stored={7: (1, "old", 1)})

    assert told(made) == [("update", 7, (1, "new", 1))]
    assert ended(made) == {7: 100}


def test_repeated_key_chains_its_changes(plan: Planning, told: Told) -> None:
    made = plan(RULE, [(1, "a", 1), (2, "x", 0), (1, "b", 2)], stored={7: (1, "old", 1)})

    assert told(made) == [("update", 7, (1, "a", 1)), ("insert", -1, (2, "x", 0)), ("update", 100, (1, "b", 2))]
    assert ended(made) == {7: 100, 100: 102}
    assert pointers(made) == [102, 101]


def test_delete_ends_the_row_and_its_own(plan: Planning, told: Told) -> None:
    made = plan(RULE, [(1,)], names=("0",), deletes=[True], stored={7: (1, "old", 1)})

    assert told(made) == [("delete", 7, (1, None, None))]
    assert ended(made) == {7: 100, 100: 100}
    assert pointers(made) == [-1]


def test_delete_of_an_absent_key_is_no_change(plan: Planning, told: Told) -> None:
    made = plan(RULE, [(1,), (1,)], names=("0",), deletes=[True, True])

    assert told(made) == []
    assert made.kept.tolist() == [False, False]
    assert len(made.index_keys) == 0


def test_row_written_after_its_delete_is_an_insert(plan: Planning, told: Told) -> None:
    rows = [(1, None, None), (1, "again", 2), (1, None, None), (1, None, None)]
    made = plan(RULE, rows, deletes=[True, False, True, True], stored={7: (1, "old", 1)})

    assert [(op, prev) for op, prev, _ in told(made)] == [("delete", 7), ("insert", -1), ("delete", 101)]
    assert ended(made) == {7: 100, 100: 100, 101: 102, 102: 102}
    assert pointers(made) == [-1]


def test_empty_request_changes_nothing(plan: Planning, told: Told) -> None:
    made = plan(RULE, [])

    assert told(made) == []
    assert made.end_offset == made.base_offset == 100
