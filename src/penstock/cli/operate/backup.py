"""`penstock backup`: all tables at one moment, copied into a directory of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.terminal.byte_progress import watch_bytes
from penstock.cli.terminal.options import ResultOutput, Url
from penstock.cli.terminal.output import write_result
from penstock.cli.terminal.words import count, count_bytes, examples, say
from penstock.errors import InvalidError
from penstock.model.node.backup import BackupResult, RestoreResult

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A directory of this machine; the next one goes there too.")
]

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog=examples(
        "penstock backup ./copy --url penstock://127.0.0.1:9123",
        "penstock backup ./copy --url ./data",
        "penstock backup ./copy --check",
    )
)
def backup(
    context: typer.Context,
    target: Target,
    *,
    full: Annotated[bool, typer.Option("--full", help="Copy everything, also what is there already.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Read a backup that is there, and compare it.")] = False,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Copy all tables as they are at one moment, while writers go on.

    From a server, whose files come to this machine, or from a data directory that no server has open. What the target
    has of an earlier backup is compared and not copied again; that backup is whole until the new one is. A backup that
    was interrupted goes on where it was: run it again. The target holds the newest backup and no older one.
    """
    if "://" in target:
        raise InvalidError("back up to a directory of this machine; a url is not supported", target=target)
    if check:
        # Here, not above: the help needs no engine.
        from penstock.engine.backup.restore import restore  # noqa: PLC0415

        whole = restore(target, verify_only=True)
        say(f"whole: {words_of(whole)}")
        write_result(output, verified_row(whole, target))
        return
    with open_connection(context, url) as connection, watch_bytes("backing up") as progress:
        made = connection.backup(Path(target), not full, progress=progress)
    copied = f"{count(made.files_copied, 'file')}, {count_bytes(made.bytes_copied)} copied"
    say(f"backed up to {target}: {words_of(made)}; {copied}")
    write_result(output, _row(made))


def words_of(found: BackupResult | RestoreResult) -> str:
    """Return what a backup holds, in words."""
    return f"{count(found.tables, 'table')}, {count(found.files, 'file')}, {count_bytes(found.bytes)}"


def verified_row(found: RestoreResult, directory: str) -> dict[str, Any]:
    """Return what a backup holds, as a row."""
    return {
        "directory": directory,
        "created_at": found.created_at.isoformat(),
        "tables": found.tables,
        "files": found.files,
        "bytes": found.bytes,
    }


def _row(made: BackupResult) -> dict[str, Any]:
    return {
        "directory": made.directory,
        "database": made.database,
        "created_at": made.created_at.isoformat(),
        "tables": made.tables,
        "files": made.files,
        "bytes": made.bytes,
        "files_copied": made.files_copied,
        "bytes_copied": made.bytes_copied,
    }
