"""Rows as a table for people."""

from __future__ import annotations

import io
import threading

import pyarrow as pa
import pytest

from penstock.cli.terminal.text_table import ROWS_MEASURED, TextTable, fit_widths


def shown(table: pa.Table, width: int = 80, batch_rows: int = 100) -> list[str]:
    stream = io.StringIO()
    text = TextTable(stream, table.schema, width=width)
    for batch in table.to_batches(batch_rows):
        text.write(batch)
    text.close()
    return stream.getvalue().splitlines()


def test_numbers_stand_right_and_words_left() -> None:
    table = pa.table({"city": ["Ulm", "Bonn"], "amount": [5, 1000], "note": [None, "x"]})

    assert shown(table) == [
        "city  amount  note",
        "────  ──────  ────",
        "Ulm        5  null",
        "Bonn    1000  x",
    ]


def test_table_without_rows_shows_its_heading() -> None:
    assert shown(pa.schema([("id", pa.int64())]).empty_table()) == ["  id", "────"]


def test_first_batches_together_decide_the_widths() -> None:
    table = pa.table({"city": ["Ulm", "a very long name"]})

    assert shown(table, batch_rows=1) == ["city", "────────────────", "Ulm", "a very long name"]


def test_rows_after_those_measured_keep_the_widths() -> None:
    table = pa.table({"city": [*["Ulm"] * ROWS_MEASURED, "a very long name"]})

    lines = shown(table, batch_rows=100)

    assert lines[:2] == ["city", "────"]
    assert lines[-1] == "a v…"
    assert lines.count("city") == 1


def test_output_that_is_no_terminal_is_never_cut() -> None:
    stream = io.StringIO()
    table = pa.table({"id": [1] * (ROWS_MEASURED + 1), "text": ["x" * 500] * ROWS_MEASURED + ["y" * 5000]})
    text = TextTable(stream, table.schema)
    for batch in table.to_batches(100):
        text.write(batch)
    text.close()

    assert "…" not in stream.getvalue()
    assert stream.getvalue().splitlines()[-1].split() == ["1", "y" * 5000]


def test_row_that_is_alone_is_shown_without_waiting_for_others() -> None:
    class Screen(io.StringIO):
        def __init__(self) -> None:
            super().__init__()
            self.flushed = threading.Event()

        def flush(self) -> None:
            self.flushed.set()

    screen = Screen()
    table = pa.table({"id": [17]})
    text = TextTable(screen, table.schema, width=80)

    text.write(table.to_batches()[0])

    assert screen.flushed.wait(30)
    assert screen.getvalue().splitlines()[2].strip() == "17"
    text.close()
    assert screen.getvalue().count("17") == 1


def test_what_is_too_wide_for_the_screen_ends_in_an_ellipsis() -> None:
    lines = shown(pa.table({"id": [1], "text": ["x" * 100]}), width=20)

    assert lines[2] == "   1  " + "x" * 13 + "…"


def test_wide_characters_count_twice_and_control_characters_do_no_harm() -> None:
    lines = shown(pa.table({"a": ["東京", "a\nb\x1b[31m"], "b": ["x", "y"]}))

    assert lines[2] == "東京          x"
    assert lines[3] == "a\\nb\\x1b[31m  y"


@pytest.mark.parametrize(
    ("wanted", "room", "expected"),
    [([4, 10], 20, [4, 10]), ([4, 100], 20, [4, 16]), ([50, 100], 20, [10, 10]), ([9, 9], 4, [4, 4]), ([], 10, [])],
)
def test_the_widest_columns_give_way(wanted: list[int], room: int, expected: list[int]) -> None:
    assert fit_widths(wanted, room) == expected
