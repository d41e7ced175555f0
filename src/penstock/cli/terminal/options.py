"""Options that several commands share, each said once."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer

from penstock.errors import InvalidError


class OutputFormat(StrEnum):
    """How rows are shown."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    ARROW = "arrow"
    PARQUET = "parquet"


class InputFormat(StrEnum):
    """What a file holds. JSON of either name is an object a line, or one array of objects."""

    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"
    ARROW = "arrow"
    PARQUET = "parquet"


Url = Annotated[
    str | None,
    typer.Option("--url", "-u", metavar="URL", help="A server's URL, or a data directory; or set PENSTOCK_URL."),
]
Output = Annotated[
    OutputFormat | None,
    typer.Option(
        "--output", "-o", help="How rows are shown; table on a terminal, ndjson in a pipe.", show_default=False
    ),
]
ResultOutput = Annotated[
    OutputFormat | None,
    typer.Option("--output", "-o", help="Write what was done to stdout too, as rows.", show_default=False),
]
LeaseOption = Annotated[
    str | None,
    typer.Option("--lease", metavar="ID", help="The table as a lease holds it, also if it was dropped since."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ReadOnly = Annotated[
    bool,
    typer.Option(
        "--read-only",
        help="Read a data directory as it is now, also beside the process that has it open; nothing is written.",
    ),
]
TablePathArgument = Annotated[str, typer.Argument(metavar="TABLE", help="The table: database.table.")]
Columns = Annotated[
    list[str] | None, typer.Option("--columns", "-c", metavar="A,B", help="Only these columns, separated by commas.")
]


def shows_text(output: OutputFormat | None) -> bool:
    """Tell whether a page for people is wanted, rather than rows."""
    return output is OutputFormat.TABLE or (output is None and sys.stdout.isatty())


def split_names(given: Iterable[str] | None) -> list[str] | None:
    """Return the names of an option that may be repeated and may hold several, None if it was not given."""
    if not given:
        return None
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


def read_pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """Return `name=value` texts as a dict.

    Raises:
        InvalidError: one has no `=`, or a name stands twice.
    """
    pairs: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals) or name in pairs:
            raise InvalidError(f"{option} takes name=value, each name once; this is {text!r}")
        pairs[name] = value
    return pairs
