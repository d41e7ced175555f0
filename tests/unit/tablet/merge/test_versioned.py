"""The rule `versioned`: the greatest version wins, equal ones the later, null loses."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.tablet.merge.versioned import Versioned, _ranks
from penstock.tablet.plan.plan import Plan

RULE = Versioned(2)
Planning = Callable[..., Plan]
Told = Callable[[Plan], list[tuple[str, int, tuple[Any, ...]]]]


@pytest.mark.parametrize(
    ("old", "new", "wins"),
    [(5, 6, True), (5, 5, True), (5, 4, False), (5, None, False), (None, 1, True), (None, None, False)],
)
def test_version_decides_against_the_stored_row(
    old: int | None, new: int | None, wins: bool, plan: Planning, told: Told
) -> None:
    made = plan(RULE, [(1, "new", new)], stored={7: (1, "old", old)})

    assert told(made) == ([("update", 7, (1, "new", new))] if wins else [])


def test_version_decides_within_a_batch(plan: Planning, told: Told) -> None:
    rows = [(1, "a", 5), (2, "x", 9), (1, "b", 4), (1, "c", 5), (1, "d", None), (1, "e", 7)]
    made = plan(RULE, rows, stored={8: (2, "y", 9)})

    assert told(made) == [
        ("insert", -1, (1, "a", 5)),
        ("update", 8, (2, "x", 9)),
        ("update", 100, (1, "c", 5)),
        ("update", 102, (1, "e", 7)),
    ]


def test_first_row_of_a_key_needs_no_version(plan: Planning, told: Told) -> None:
    assert told(plan(RULE, [(1, "a", None), (1, "b", None)])) == [("insert", -1, (1, "a", None))]


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (pa.int8(), -3, 4),
        (pa.timestamp("us", tz="UTC"), 1, 2),
        (pa.date32(), 1, 2),
        (pa.decimal128(18, 2), Decimal("1.10"), Decimal("9.20")),
        (pa.string(), "a", "b"),
        (pa.float64(), -1.5, 2.5),
    ],
    ids=str,
)
def test_versions_of_every_ordered_type_are_ranked(kind: pa.DataType, low: Any, high: Any) -> None:
    ranks = _ranks(pa.array([high, None, low, high], kind)).tolist()

    assert ranks == [2, -1, 1, 2]
