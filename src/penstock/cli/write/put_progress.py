"""Progress of a `put` on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TimeElapsedColumn,
)
from rich.text import Text

from penstock.cli.input.inputs import InputFile


class WrittenColumn(ProgressColumn):
    """Rows written, and how many a second; asked anew at every refresh, for they settle in the background."""

    def __init__(self, written: Callable[[], int]) -> None:
        super().__init__()
        self._written = written

    def render(self, task: Task) -> Text:
        """Return the figures of this moment."""
        rows = self._written()
        return Text(f"{rows:,} rows  {rows / max(task.elapsed or 0, 0.001):,.0f} rows/s")


class PutProgress:
    """A bar on stderr, if that is a terminal: bytes read, rows written, rows a second."""

    def __init__(self, sources: Sequence[InputFile], written: Callable[[], int]) -> None:
        self._sources = sources
        console = Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=30),
            DownloadColumn(),
            WrittenColumn(written),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        # The size of stdin is not known, and then neither is the whole.
        total = sum(source.size for source in sources) if all(source.size for source in sources) else None
        self._task = self._bar.add_task("put", total=total)

    def move(self) -> None:
        """Show how far the files were read."""
        self._bar.update(self._task, completed=sum(source.position for source in self._sources))

    def __enter__(self) -> PutProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
