"""Progress of a long read on the terminal, while its rows go into a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from penstock.cli.terminal.words import is_watched


def watch_rows(batches: Iterable[pa.RecordBatch], total: Callable[[], int | None]) -> Iterator[pa.RecordBatch]:
    """Return the batches as they come, with a bar on stderr if that is a terminal and stdout is none.

    `total` says how many rows there will be, None if that is unknown; it is asked only for a bar.
    """
    if sys.stdout.isatty() or not is_watched():
        yield from batches
        return
    # Here, not above: rows in a pipe need no screen.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), BarColumn(bar_width=30), MofNCompleteColumn(), "rows", TimeElapsedColumn())
    # The bar must not take stdout over: the rows go there.
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("rows", total=total())
        for batch in batches:
            yield batch
            bar.advance(task, batch.num_rows)
