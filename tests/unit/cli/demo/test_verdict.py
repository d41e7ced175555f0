from __future__ import annotations

import io
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from penstock.cli.demo.command import conclude
from penstock.cli.demo.crash import Leftover
from penstock.cli.demo.story import Outcome
from penstock.cli.demo.totals import Total, by_city, differences, recomputed, stored
from penstock.cli.demo.verdict import Verdict

DAY = date(2026, 1, 1)
ORDERS = pa.table(
    {
        "id": [1, 2, 3],
        "city": ["Ulm", "Ulm", "Bonn"],
        "day": pa.array([DAY] * 3, pa.date32()),
        "amount": pa.array([Decimal("1.50"), Decimal("2.00"), Decimal("4.25")], pa.decimal128(12, 2)),
    }
)


def revenue(ulm: str = "3.50") -> pa.Table:
    return pa.table(
        {
            "city": ["Ulm", "Bonn", "Kiel"],
            "day": pa.array([DAY] * 3, pa.date32()),
            "revenue": pa.array([Decimal(ulm), Decimal("4.25"), Decimal("0.00")], pa.decimal128(18, 2)),
            "orders": [2, 1, 0],
        }
    )


def outcome(undone: int = 1) -> Outcome:
    error = {("Ulm", DAY): Total(Decimal("1.50"), 1)}
    return Outcome(Leftover(batch=3, fence=1, rows=1, cut={}, before={}, error=error), undone)


def judge(**changed: Any) -> Verdict:
    facts: dict[str, Any] = {
        "revenue": revenue(),
        "orders": ORDERS,
        "truth": ORDERS,
        "pending": 0,
        "outcome": outcome(),
    }
    return Verdict.of(**(facts | changed))


def words(verdict: Verdict) -> str:
    console = Console(file=io.StringIO(), width=200)
    verdict.show(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_equal_totals_are_exact_and_show_what_undo_was_worth() -> None:
    verdict = judge()

    assert verdict.faults == ()
    assert "EXACT" in words(verdict)
    assert "+1.50" in words(verdict)


def test_a_total_off_by_a_cent_is_wrong() -> None:
    verdict = judge(revenue=revenue(ulm="3.51"))

    assert len(verdict.faults) == 2
    assert "EXACT" not in words(verdict)
    assert "WRONG" in words(verdict)


def test_orders_that_differ_from_the_truth_are_wrong() -> None:
    assert judge(truth=ORDERS.slice(1)).faults


def test_rows_left_uncommitted_are_wrong() -> None:
    assert judge(pending=1).faults == ("rows are left uncommitted",)


def test_leftovers_that_were_not_undone_are_wrong() -> None:
    assert judge(outcome=outcome(undone=0)).faults == ("not all leftovers of the killed batch were undone",)


def test_demo_that_went_wrong_fails_and_leaves_what_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = conclude(lambda: judge(pending=1), tmp_path, keep=False)

    assert code == 1
    assert capsys.readouterr().err == f"data and logs are in {tmp_path}\n"
    assert tmp_path.exists()


@pytest.mark.parametrize("keep", [True, False])
def test_demo_that_went_well_leaves_its_directory_only_when_asked(tmp_path: Path, *, keep: bool) -> None:
    assert conclude(judge, tmp_path, keep=keep) == 0
    assert tmp_path.exists() is keep


def test_totals_of_a_day_make_those_of_the_city() -> None:
    totals = recomputed(ORDERS)

    assert by_city(totals) == {"Ulm": Total(Decimal("3.50"), 2), "Bonn": Total(Decimal("4.25"), 1)}
    assert totals == stored(revenue())
    assert differences(totals, {}) == totals
