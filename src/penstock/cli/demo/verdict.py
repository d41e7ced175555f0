"""The verdict: every total against a recomputation and against the truth, and what undo was worth."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from penstock.cli.demo.story import Outcome
from penstock.cli.demo.totals import NOTHING, ByCity, ByDay, Total, by_city, differences, recomputed, stored


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found at the end. Everything in `faults` should not be."""

    found: ByDay
    orders: int
    outcome: Outcome
    faults: tuple[str, ...]

    @classmethod
    def of(cls, *, revenue: pa.Table, orders: pa.Table, truth: pa.Table, pending: int, outcome: Outcome) -> Verdict:
        """Compare the tables with each other and with the truth."""
        found, again, right = stored(revenue), recomputed(orders), recomputed(truth)
        names = truth.column_names
        same_orders = orders.select(names).sort_by("id").equals(truth.sort_by("id").cast(orders.select(names).schema))
        checks = {
            "shop.orders differs from what the generator wrote": not same_orders,
            "totals differ from those recomputed from shop.orders": bool(differences(found, again)),
            "totals differ from the generator's truth": bool(differences(found, right)),
            "rows are left uncommitted": pending > 0,
            "not all leftovers of the killed batch were undone": outcome.undone != len(outcome.left.error),
        }
        faults = tuple(words for words, wrong in checks.items() if wrong)
        return cls(found, orders.num_rows, outcome, faults)

    def show(self, console: Console) -> None:
        """Print the totals of all cities, what they would be without undo, and the verdict."""
        error = by_city(self.outcome.left.error)
        console.print(_totals(by_city(self.found), error))
        wrong = sum((abs(total.revenue) for total in error.values()), NOTHING.revenue)
        batch, rows = self.outcome.left.batch, self.outcome.left.rows
        console.print(
            f"Without undo, the replay of batch {batch} would have counted {rows:,} rows twice: {len(error)} of "
            f"{len(by_city(self.found))} cities wrong, by {wrong:,} in all.",
            soft_wrap=True,
        )
        for fault in self.faults:
            console.print(f"[bold red]WRONG[/bold red]: {fault}")
        if not self.faults:
            console.print(
                f"[bold green]EXACT[/bold green]: {len(self.found):,} totals over {self.orders:,} orders equal the "
                "recomputation from shop.orders and the generator's truth.",
                soft_wrap=True,
            )


def _totals(cities: ByCity, error: ByCity) -> Grid:
    grid = Grid(title="shop.revenue_by_city", title_justify="left")
    grid.add_column("city")
    for heading in ("orders", "revenue", "without undo", "error"):
        grid.add_column(heading, justify="right")
    for city, total in sorted(cities.items(), key=lambda item: -item[1].revenue):
        off = error.get(city, NOTHING)
        grid.add_row(
            city, f"{total.orders:,}", f"{total.revenue:,}", f"{total.plus(off).revenue:,}", _signed(off.revenue)
        )
    whole, off = _sum(cities), _sum(error)
    grid.add_section()
    grid.add_row("all", f"{whole.orders:,}", f"{whole.revenue:,}", f"{whole.plus(off).revenue:,}", _signed(off.revenue))
    return grid


def _sum(cities: ByCity) -> Total:
    whole = NOTHING
    for total in cities.values():
        whole = whole.plus(total)
    return whole


def _signed(amount: Decimal) -> str:
    return f"{amount:+,}" if amount else ""
