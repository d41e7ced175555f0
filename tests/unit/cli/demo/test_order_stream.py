from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.cli.demo.order_stream import OrderStream, Step, euros


def fold(steps: list[Step]) -> dict[int, dict[str, Any]]:
    """Return the rows that the steps leave, applied one row at a time."""
    rows: dict[int, dict[str, Any]] = {}
    for step in steps:
        rows |= {row["id"]: row for row in step.upserts.to_pylist()}
        for gone in step.cancelled["id"].to_pylist():
            del rows[gone]
    return rows


def test_truth_is_what_the_steps_leave() -> None:
    stream = OrderStream(3_000, seed=7)

    left = fold(list(stream.steps()))

    assert {row["id"]: row for row in stream.truth().to_pylist()} == left
    assert 0 < len(left) < 3_000


def test_orders_of_a_seed_are_always_the_same() -> None:
    one, same, other = (pa.concat_tables(s.upserts for s in OrderStream(2_000, seed).steps()) for seed in (3, 3, 4))

    assert one.equals(same)
    assert not one.equals(other)


def test_steps_update_move_and_cancel() -> None:
    steps = list(OrderStream(2_000, seed=1).steps())

    first = {row["id"]: row for step in steps for row in reversed(step.upserts.to_pylist())}
    moved = [row for step in steps for row in step.upserts.to_pylist() if row["city"] != first[row["id"]]["city"]]

    assert moved
    assert sum(step.cancelled.num_rows for step in steps) > 0
    assert sum(step.changes for step in steps) > 2_000


def test_cents_become_decimals() -> None:
    assert euros(np.array([199, 0, -5], np.int64)).to_pylist() == [Decimal("1.99"), Decimal("0.00"), Decimal("-0.05")]
