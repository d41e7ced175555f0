from __future__ import annotations

import io
from decimal import Decimal

from rich.console import Console

from penstock.cli.demo.dashboard import BAR_CELLS, Dashboard, bar
from penstock.cli.demo.totals import Total


def test_bar_is_as_long_as_its_share() -> None:
    assert bar(0.0).strip() == ""
    assert bar(1.0) == "█" * BAR_CELLS
    assert bar(0.5).strip() == "█" * (BAR_CELLS // 2)
    assert {len(bar(share / 100)) for share in range(100)} == {BAR_CELLS}


def test_story_is_told_line_by_line_where_there_is_no_terminal() -> None:
    console = Console(file=io.StringIO(), width=60)

    with Dashboard(console) as view:
        view.say("something happened that takes more words than a narrow line would hold, and is one line")

    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "00:00  something happened that takes more words than a narrow line would hold, and is one line"
    ]


def test_screen_shows_cities_by_revenue_and_the_story() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)

    with Dashboard(console) as view:
        view.figures.cities = {"Ulm": Total(Decimal("5.00"), 1), "Bonn": Total(Decimal("9.50"), 3)}
        view.say("two cities")

    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert shown.index("Bonn") < shown.index("Ulm")
    assert "9.50" in shown
    assert "two cities" in shown
