"""How far a `put` is, on the terminal of whoever waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from penstock.cli.inputs import InputFile


class PutProgress:
    """A bar on stderr, if that is a terminal: bytes read, rows written, rows a second."""

    def __init__(self, sources: Sequence[InputFile]) -> None:
        self._sources = sources
        console = Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[rows]:,} rows"),
            TextColumn("{task.fields[rate]:,.0f} rows/s"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        # The size of stdin is not known, and then neither is the whole.
        total = sum(source.size for source in sources) if all(source.size for source in sources) else None
        self._task = self._bar.add_task("put", total=total, rows=0, rate=0.0)

    def show(self, rows: int) -> None:
        """Show that so many rows are written."""
        task = self._bar.tasks[0]
        self._bar.update(
            self._task,
            completed=sum(source.position for source in self._sources),
            rows=rows,
            rate=rows / max(task.elapsed or 0, 0.001),
        )

    def __enter__(self) -> PutProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
