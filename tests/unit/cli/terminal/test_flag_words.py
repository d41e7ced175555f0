"""Messages of the API in the words of the command line: flags and commands, never arguments or methods."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.cli.terminal.flag_words import flag_words, in_flag_words
from penstock.client.connection import Connection
from penstock.client.leases.lease import Lease
from penstock.client.scan.scan import Scan
from penstock.client.table import Table
from penstock.errors import InvalidError

SOURCE = Path(penstock.__file__).parent
# The command line has no way to what these refuse: tokens of owners, pages, data frames, settings of a process.
NEVER_MET = (
    "cli",
    "spark",
    "testing",
    "client/hold",
    "client/pages",
    "client/ingest",
    "client/write/table_owners.py",
    "engine/owners",
    "model/filter/expression.py",
    "model/node/owner_token.py",
)
# What a program calls them, and a person does not.
METHODS = {
    name
    for kind in (Connection, Table, Lease, Scan)
    for name, _ in inspect.getmembers(kind, callable)
    if "_" in name.strip("_") and not name.startswith("_")
}
ARGUMENTS = {
    argument
    for kind in (Connection, Table)
    for name, method in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_")
    for argument in inspect.signature(method).parameters
    if "_" in argument
}
# `name=` with nothing after it, or a value as Python writes it; a method called; an attribute of the package.
PYTHON = re.compile(
    r"""\b[a-z_]+=(?:[\[\]'"();,\s]|True|False|None|$)|\b\w+\(\)|\bt\.[a-z]|\bpenstock\.(?:[A-Z]|col\b)|__\w+__"""
    r"""|\b(?:use|pass) (?:cascade|follow|owner|columns)\b"""
)
NAMES = re.compile(rf"\b(?:{'|'.join(sorted(METHODS | ARGUMENTS))})\b")


def texts(found: ast.expr) -> str:
    """Return the constant part of a message, braces where something is filled in."""
    if isinstance(found, ast.Constant):
        return str(found.value)
    if isinstance(found, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in found.values)  # type: ignore[misc]
    return ""


def messages() -> Iterator[tuple[str, str]]:
    """Return every message of an error in the source, and where it stands."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith(NEVER_MET):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name.endswith("Error") and texts(node.args[0]):
                    yield f"{place}:{node.lineno}", texts(node.args[0])


MESSAGES = dict(messages())


def test_every_message_of_the_source_is_said_in_flags_and_commands() -> None:
    assert len(MESSAGES) > 300
    said = {place: flag_words(message) for place, message in MESSAGES.items()}

    python = {place: text for place, text in said.items() if PYTHON.search(text) or NAMES.search(text)}

    assert python == {}, "add words for them to penstock/cli/terminal/flag_words.py"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "column is missing; add it, or pass columns=[...] to write only some",
            "column is missing; add it, or say --columns A,B to write only some",
        ),
        (
            "no such database; create it with create_database",
            "no such database; create it with `penstock database create`",
        ),
        ("as_of names every bucket that is to be read", "--as-of names every bucket that is to be read"),
        ("use follow=True to wait for it", "use --follow to wait for it"),
        (
            "the partition is there; pass if_not_exists=True if that will do",
            "the partition is there; say --if-not-exists if that will do",
        ),
        ("only merge_engine=aggregate folds columns", "only --merge-engine aggregate folds columns"),
        ("a plain message names nothing", "a plain message names nothing"),
    ],
)
def test_arguments_and_methods_are_said_as_flags_and_commands(message: str, said: str) -> None:
    assert flag_words(message) == said


def test_facts_stay_as_they_are() -> None:
    error = InvalidError("as_of names every bucket", as_of=3, merge_engine="aggregate")

    assert in_flag_words(error) == "--as-of names every bucket as_of=3 merge_engine=aggregate"
