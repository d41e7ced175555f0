"""Progress of a copy on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.cli.terminal.words import is_watched


@contextmanager
def watch_bytes(what: str) -> Iterator[Callable[[int, int], None]]:
    """Give what to call with the bytes done and the bytes of all; shows a bar on stderr if that is a terminal."""
    if not is_watched():
        yield lambda done, total: None
        return
    # Here, not above: a program that reads stderr needs no screen.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn(what),
        BarColumn(bar_width=30),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
