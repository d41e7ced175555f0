"""The live view: the top cities as bars from a consistent scan, what the job does, and what has happened."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from penstock.cli.demo.totals import NOTHING, ByCity

CITIES_SHOWN: Final = 10
BAR_CELLS: Final = 36
PLAIN_SECONDS: Final = 5.0
EIGHTHS: Final = " ▏▎▍▌▋▊▉█"


@dataclass
class Figures:
    """What the dashboard shows: the state of the moment."""

    cities: ByCity = field(default_factory=dict)
    written: int = 0
    share: float = 0.0
    rate: float = 0.0
    held: bool = False
    job: str = "not started"
    server: str = "up"


class Dashboard:
    """Shows figures and tells the story: redrawn on a terminal, line by line elsewhere. A context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._began = time.monotonic()
        self._said: list[tuple[float, str]] = []
        self._last_plain = self._began
        self.figures = Figures()

    @property
    def seconds(self) -> float:
        """Return how long the dashboard has been there."""
        return time.monotonic() - self._began

    def say(self, words: str) -> None:
        """Tell what happened."""
        self._said.append((self.seconds, words))
        if self._live is None:
            self._console.print(Text.assemble((f"{_clock(self.seconds)}  ", "dim"), words), soft_wrap=True)
        self.draw()

    def draw(self) -> None:
        """Show the figures as they are."""
        if self._live is not None:
            self._live.update(self._screen(), refresh=True)
        elif time.monotonic() - self._last_plain > PLAIN_SECONDS:
            self._last_plain = time.monotonic()
            self._console.print(Text(f"{_clock(self.seconds)}    {self._line()}", style="dim"), soft_wrap=True)

    def __enter__(self) -> Dashboard:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def _states(self) -> dict[str, str]:
        now = self.figures
        total = sum((total.revenue for total in now.cities.values()), NOTHING.revenue)
        pace = "the rest comes after the crashes" if now.held else f"{now.rate:,.0f}/s"
        return {
            "orders": f"{now.written:,} changes written ({now.share:.0%}), {pace}",
            "server": now.server,
            "job": now.job,
            "revenue": f"{total:,} in {len(now.cities)} cities",
        }

    def _line(self) -> str:
        return " | ".join(f"{name} {words}" for name, words in self._states().items())

    def _screen(self) -> RenderableType:
        states, story = Grid.grid(padding=(0, 2)), Grid.grid(padding=(0, 2))
        for name, words in self._states().items():
            states.add_row(Text(name, style="dim"), words)
        for seconds, words in self._said:
            story.add_row(Text(_clock(seconds), style="dim"), words)
        return Group(Panel(Group(bars(self.figures.cities), "", states), title="shop.revenue_by_city"), story)


def bars(cities: ByCity) -> Grid:
    """Return the cities with most revenue, each with a bar."""
    top = sorted(cities.items(), key=lambda item: -item[1].revenue)[:CITIES_SHOWN]
    most = max((float(total.revenue) for _, total in top), default=0.0) or 1.0
    grid = Grid.grid(padding=(0, 2))
    for city, total in top:
        grid.add_row(
            city, Text(bar(float(total.revenue) / most), style="cyan"), f"{total.revenue:>14,}", orders(total.orders)
        )
    for _ in range(CITIES_SHOWN - len(top)):
        grid.add_row("")
    return grid


def bar(share: float) -> str:
    """Return a bar for a share between 0 and 1, exact to an eighth of a cell."""
    eighths = max(0, round(share * BAR_CELLS * 8))
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).ljust(BAR_CELLS)[:BAR_CELLS]


def orders(count: int) -> str:
    """Return a number of orders in words."""
    return f"{count:,} orders"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"
