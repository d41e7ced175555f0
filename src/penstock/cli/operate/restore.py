"""`penstock restore`: a new data directory, made of a backup."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from penstock.cli.commands.access import URL_VARIABLE, Access
from penstock.cli.operate.backup import verified_row, words_of
from penstock.cli.terminal.options import ResultOutput, Url
from penstock.cli.terminal.output import write_result
from penstock.cli.terminal.words import examples, say
from penstock.errors import InvalidError

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="A backup.")]
Target = Annotated[
    str | None,
    typer.Argument(metavar="TARGET", help="The new data directory: empty, or not there.", show_default=False),
]

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(epilog=examples("penstock restore ./copy ./data-again", "penstock restore ./copy --verify-only"))
def restore(
    context: typer.Context,
    source: Source,
    target: Target = None,
    *,
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Only read all of the backup and compare it.")
    ] = False,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Make a new data directory of a backup. Every file is checked, and nothing is overwritten.

    The copy is a database of its own. Its key index is not in the backup: the first start makes it of the rows.
    """
    # Here, not above: the help needs no engine.
    from penstock.engine.backup.restore import restore as restore_backup  # noqa: PLC0415

    if verify_only:
        found = restore_backup(source, verify_only=True)
        say(f"whole: {words_of(found)}")
        write_result(output, verified_row(found, source))
        return
    directory = target or _named(context, url)
    found = restore_backup(source, directory)
    say(f"restored to {directory}: {words_of(found)}; the first start makes its key index")
    write_result(output, verified_row(found, directory))


def _named(context: typer.Context, url: str | None) -> str:
    """Return the data directory that --url or the environment names.

    Raises:
        InvalidError: none is named, or a server is.
    """
    access = context.find_object(Access) or Access()
    name = url or access.url or os.environ.get(URL_VARIABLE)
    if not name or "://" in name:
        raise InvalidError("name the new data directory: penstock restore SOURCE TARGET", url=name)
    return name
