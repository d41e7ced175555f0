"""Help names no type of Python, and has a sentence for everything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.root.command_group import COMMANDS, load_command

RUNNER = CliRunner()


def leaves(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    """Return every command that can be run, with the words that run it."""
    inner = getattr(command, "commands", None)
    if inner:
        for word, found in inner.items():
            yield from leaves(found, f"{words} {word}")
        return
    yield words, command


LEAVES = dict(leaf for name in COMMANDS for leaf in leaves(load_command(name), name))


@pytest.mark.parametrize("words", ["", *COMMANDS, *LEAVES])
def test_help_names_no_type_of_python(words: str) -> None:
    shown = RUNNER.invoke(app, [*words.split(), "--help"], env={"COLUMNS": "100"})

    assert shown.exit_code == 0, shown.output
    assert re.search(r"<[a-z]|<Path|\[x[<>]|\{[A-Z]", shown.stdout) is None, shown.stdout


@pytest.mark.parametrize("words", LEAVES)
def test_every_option_and_argument_says_what_it_is(words: str) -> None:
    for parameter in LEAVES[words].params:
        if not getattr(parameter, "hidden", False):
            said = (parameter.help or "").strip()
            assert said, (words, parameter.name)
            assert said[-1] in ".*:" or parameter.metavar == "TABLE", (words, parameter.name, said)


def test_choices_are_shown_where_they_fit_and_listed_where_not() -> None:
    shown = " ".join(RUNNER.invoke(app, ["scan", "--help"], env={"COLUMNS": "160"}).stdout.split())

    assert "live|snapshot|log" in shown
    assert "FORMAT" in shown
    assert "One of table, json, ndjson, csv, arrow, parquet." in shown
