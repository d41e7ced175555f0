"""Rows as a table for people, written as they come: the first rows, of however many batches, decide the widths."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final, TextIO

import pyarrow as pa
from rich.cells import cell_len, set_cell_size

from penstock.cli.terminal.arrow_text import is_right_aligned, plain_text
from penstock.cli.terminal.controls import shown_cell

ROWS_MEASURED: Final = 1_000
WAIT_SECONDS_MAX: Final = 0.3
"""So long rows are held back for those after them: who follows a table sees a row when it is there."""
WIDTH_MIN: Final = 4
_GAP: Final = "  "


class TextTable:
    """Writes rows in aligned columns; what is too wide for the screen ends in an ellipsis.

    Without a screen, in a file or a pipe, nothing is cut. Thread-safe by one lock: rows that are held back are
    written by a timer if no more come.
    """

    def __init__(self, stream: TextIO, schema: pa.Schema, *, width: int | None = None) -> None:
        self._stream = stream
        self._schema = schema
        self._screen = width or (shutil.get_terminal_size((200, 24)).columns if stream.isatty() else None)
        self._right = [is_right_aligned(field.type) for field in schema]
        self._widths: list[int] = []
        self._held: list[list[list[str]]] = []
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows, once enough are there to tell how wide the columns are."""
        columns = [_cells(column) for column in batch.columns]
        with self._lock:
            if self._widths:
                self._write(columns)
                return
            self._held.append(columns)
            if sum(len(held[0]) if held else 0 for held in self._held) >= ROWS_MEASURED:
                self._release()
            elif self._timer is None and batch.num_rows:
                self._timer = threading.Timer(WAIT_SECONDS_MAX, self._wait_no_longer)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Write what is held back; the heading alone if there was no row."""
        with self._lock:
            self._release()

    def _wait_no_longer(self) -> None:
        with self._lock:
            try:
                self._release()
                self._stream.flush()
            except (OSError, ValueError):
                # The reader has gone; the next write says so to who can end the command.
                return

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._widths:
            return
        held, self._held = self._held, []
        joined = [list(chain.from_iterable(columns[at] for columns in held)) for at in range(len(self._schema))]
        self._begin(joined)
        self._write(joined)

    def _write(self, columns: list[list[str]]) -> None:
        self._stream.writelines(self._line(row) for row in zip(*columns, strict=True))

    def _begin(self, columns: list[list[str]]) -> None:
        names = list(map(shown_cell, self._schema.names))
        wanted = [
            max([WIDTH_MIN, cell_len(name), *map(cell_len, cells[:ROWS_MEASURED])])
            for name, cells in zip(names, columns, strict=True)
        ]
        room = None if self._screen is None else self._screen - len(_GAP) * (len(wanted) - 1)
        self._widths = wanted if room is None else fit_widths(wanted, room)
        self._stream.write(self._line(names))
        self._stream.write(_GAP.join("─" * width for width in self._widths) + "\n")

    def _line(self, cells: Iterable[str]) -> str:
        cut = self._screen is not None
        shown = [_fit(*facts, cut=cut) for facts in zip(cells, self._widths, self._right, strict=True)]
        return _GAP.join(shown).rstrip() + "\n"


def fit_widths(wanted: list[int], room: int) -> list[int]:
    """Return widths that fit the room: the widest columns give way together; each keeps a few cells."""
    if sum(wanted) <= room:
        return wanted
    fitting = (most for most in range(room, WIDTH_MIN, -1) if sum(min(width, most) for width in wanted) <= room)
    most = next(fitting, WIDTH_MIN)
    return [min(width, most) for width in wanted]


def _cells(column: pa.Array) -> list[str]:
    texts: list[Any] = plain_text(column).fill_null("null").to_pylist()
    return list(map(shown_cell, texts))


def _fit(cell: str, width: int, right: bool, *, cut: bool) -> str:
    length = cell_len(cell)
    if length > width:
        if not cut:
            return cell
        return set_cell_size(cell, width - 1) + "…"
    padding = " " * (width - length)
    return padding + cell if right else cell + padding
