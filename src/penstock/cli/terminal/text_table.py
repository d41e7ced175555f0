"""Rows as a table for people, written as they come: the first rows decide how wide the columns are."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from typing import Any, Final, TextIO

import pyarrow as pa
from rich.cells import cell_len, set_cell_size

from penstock.cli.terminal.arrow_text import is_right_aligned, plain_text
from penstock.cli.terminal.controls import shown_cell

ROWS_MEASURED: Final = 1_000
WIDTH_MIN: Final = 4
_GAP: Final = "  "


class TextTable:
    """Writes rows in aligned columns; what is too wide for the screen ends in an ellipsis."""

    def __init__(self, stream: TextIO, schema: pa.Schema, *, width: int | None = None) -> None:
        self._stream = stream
        self._schema = schema
        self._screen = width or shutil.get_terminal_size((200, 24)).columns
        self._right = [is_right_aligned(field.type) for field in schema]
        self._widths: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows; the first ones set the widths."""
        columns = [_cells(column) for column in batch.columns]
        if not self._widths:
            self._begin(columns)
        lines = (self._line(row) for row in zip(*columns, strict=True))
        self._stream.writelines(lines)

    def close(self) -> None:
        """Write the heading of a table without rows."""
        if not self._widths:
            self._begin([[] for _ in self._schema])

    def _begin(self, columns: list[list[str]]) -> None:
        names = list(map(shown_cell, self._schema.names))
        wanted = [
            max([WIDTH_MIN, cell_len(name), *map(cell_len, cells[:ROWS_MEASURED])])
            for name, cells in zip(names, columns, strict=True)
        ]
        self._widths = fit_widths(wanted, self._screen - len(_GAP) * (len(wanted) - 1))
        self._stream.write(self._line(names))
        self._stream.write(_GAP.join("─" * width for width in self._widths) + "\n")

    def _line(self, cells: Iterable[str]) -> str:
        shown = [_fit(*facts) for facts in zip(cells, self._widths, self._right, strict=True)]
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


def _fit(cell: str, width: int, right: bool) -> str:
    length = cell_len(cell)
    if length > width:
        return set_cell_size(cell, width - 1) + "…"
    padding = " " * (width - length)
    return padding + cell if right else cell + padding
