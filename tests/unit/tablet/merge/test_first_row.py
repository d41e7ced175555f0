"""The rule `first_row`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.tablet.merge.first_row import FirstRow
from penstock.tablet.plan.plan import Plan

Planning = Callable[..., Plan]
Told = Callable[[Plan], list[tuple[str, int, tuple[Any, ...]]]]


def test_first_row_of_a_key_stays(plan: Planning, told: Told) -> None:
    made = plan(FirstRow(), [(1, "late", 1), (2, "first", 1), (2, "second", 2)], stored={7: (1, "old", 1)})

    assert told(made) == [("insert", -1, (2, "first", 1))]
    assert made.kept.tolist() == [False, True, False]
