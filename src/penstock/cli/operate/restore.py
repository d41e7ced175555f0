"""`penstock restore`: a new data directory, made of a backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.operate.backup import data_directory, result_of, words_of
from penstock.cli.terminal.options import ResultOutput, Url
from penstock.cli.terminal.output import write_result
from penstock.cli.terminal.words import examples, say

Source = Annotated[Path, typer.Argument(metavar="DIR", help="A backup.", file_okay=False)]

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(epilog=examples("penstock restore ./backup-monday --url ./data"))
def restore(context: typer.Context, directory: Source, *, output: ResultOutput = None, url: Url = None) -> None:
    """Make a new data directory of a backup. Every file is checked, and nothing is overwritten."""
    # Here, not above: the help needs no engine.
    from penstock.engine.backup.restore import restore_backup  # noqa: PLC0415

    target = data_directory(context, url, absent=True)
    found = restore_backup(directory, target)
    say(f"restored to {target}: {words_of(found)}")
    write_result(output, result_of(found, target))
