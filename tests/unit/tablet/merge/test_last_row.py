"""The rule `last_row`, column by column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.tablet.merge.last_row import LastRow
from penstock.tablet.plan.plan import Plan

RULE = LastRow((0,))
STORED = {7: (1, "old", 1)}
Planning = Callable[..., Plan]
Told = Callable[[Plan], list[tuple[str, int, tuple[Any, ...]]]]


def test_full_upsert_of_an_equal_row_is_a_change(plan: Planning, told: Told) -> None:
    assert told(plan(RULE, [(1, "old", 1)], stored=STORED)) == [("update", 7, (1, "old", 1))]


def test_columns_that_are_not_written_are_null(plan: Planning, told: Told) -> None:
    assert told(plan(RULE, [(1, "new")], names=("0", "1"), stored=STORED)) == [("update", 7, (1, "new", None))]


def test_partial_update_keeps_the_other_columns(plan: Planning, told: Told) -> None:
    made = plan(RULE, [(1, 5), (2, 6)], names=("0", "2"), columns=(2,), stored=STORED)

    assert told(made) == [("update", 7, (1, "old", 5)), ("insert", -1, (2, None, 6))]


def test_partial_update_that_changes_nothing_is_no_change(plan: Planning, told: Told) -> None:
    made = plan(RULE, [(1, 1), (1, 2), (1, 2)], names=("0", "2"), columns=(2,), stored=STORED)

    assert told(made) == [("update", 7, (1, "old", 2))]
    assert made.kept.tolist() == [False, True, False]


def test_partial_update_of_nulls_inserts_an_absent_key(plan: Planning, told: Told) -> None:
    made = plan(RULE, [(3, None)], names=("0", "2"), columns=(2,))

    assert told(made) == [("insert", -1, (3, None, None))]


def test_partial_update_after_a_delete_finds_nothing_to_keep(plan: Planning, told: Told) -> None:
    rows = [(1, 5), (1, None), (1, 6), (2, 9)]
    made = plan(RULE, rows, names=("0", "2"), columns=(2,), deletes=[False, True, False, False], stored=STORED)

    assert [(op, row) for op, _, row in told(made) if op != "delete"] == [
        ("update", (1, "old", 5)),
        ("insert", (1, None, 6)),
        ("insert", (2, None, 9)),
    ]


def test_cleared_columns_become_null_once(plan: Planning, told: Told) -> None:
    made = plan(RULE, [(1,), (1,)], names=("0",), columns=(2,), clears=True, stored=STORED)

    assert told(made) == [("update", 7, (1, "old", None))]
    assert made.kept.tolist() == [True, False]


def test_row_with_nothing_left_after_a_clear_goes(plan: Planning, told: Told) -> None:
    made = plan(RULE, [(1,)], names=("0",), columns=(1, 2), clears=True, stored=STORED)

    assert [(op, prev) for op, prev, _ in told(made)] == [("delete", 7)]
    assert made.index_offsets.tolist() == [-1]


def test_clear_of_null_columns_or_of_an_absent_key_is_no_change(plan: Planning, told: Told) -> None:
    made = plan(RULE, [(1,), (2,)], names=("0",), columns=(2,), clears=True, stored={7: (1, "old", None)})

    assert told(made) == []


def test_clears_keep_the_order_of_their_rows(plan: Planning, told: Told) -> None:
    stored = {7: (1, "a", 1), 8: (2, "b", 2)}
    made = plan(RULE, [(2,), (1,)], names=("0",), columns=(2,), clears=True, stored=stored)

    assert [prev for _, prev, _ in told(made)] == [8, 7]
