"""What is said to people: on stderr, never among the data."""

from __future__ import annotations

import sys

from penstock.cli.terminal.controls import shown_text
from penstock.cli.terminal.flag_words import in_flag_words
from penstock.cli.terminal.hints import find_hint
from penstock.errors import PenstockError

_UNITS = ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


def say(text: str) -> None:
    """Write a line for people."""
    sys.stderr.write(f"{shown_text(text) if sys.stderr.isatty() else text}\n")
    sys.stderr.flush()


def say_failure(error: PenstockError) -> None:
    """Write what went wrong, what is known beside it, and what may help."""
    say(f"penstock: {in_flag_words(error)}")
    for note in getattr(error, "__notes__", ()):
        say(f"  {note}")
    hint = find_hint(error)
    if hint is not None:
        say(f"  hint: {hint}")


def is_watched() -> bool:
    """Tell whether a person is likely to read what is said."""
    return sys.stderr.isatty()


def count(number: int, noun: str) -> str:
    """Return how many there are of something, in words."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def count_rows(rows: int) -> str:
    """Return a number of rows in words."""
    return count(rows, "row")


def count_bytes(size: int) -> str:
    """Return a size in words, to three digits: exact enough to read."""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {name}" if size < 999.5 * unit else f"{size / unit:,.0f} {name}"
    return f"{size} B"


def examples(*lines: str) -> str:
    """Return the end of a command's help: how it is used, line by line."""
    # Help is rich markup: a bracket opens a style there unless it is escaped.
    return "\n".join(["[bold]Examples[/bold]", *(line.replace("[", r"\[") for line in lines)])


def unwrapped(text: str) -> str:
    """Return help whose paragraphs are single lines, for the screen to wrap."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
