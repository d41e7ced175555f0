"""`penstock backup`: a data directory, copied whole and checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.commands.access import URL_VARIABLE, Access
from penstock.cli.terminal.options import ResultOutput, Url
from penstock.cli.terminal.output import write_result
from penstock.cli.terminal.words import count, count_bytes, examples, say
from penstock.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from penstock.codec.stored.backup_inventory import BackupInventory

Target = Annotated[Path, typer.Argument(metavar="DIR", help="A directory that is empty or not there.")]

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(epilog=examples("penstock backup ./backup-monday --url ./data", "penstock backup ./backup --check"))
def backup(
    context: typer.Context,
    directory: Target,
    *,
    check: Annotated[bool, typer.Option("--check", help="Read a backup that is there, and compare it.")] = False,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Copy all tables and the catalog, checked.

    Each table is copied at one cut. The data directory is opened for it: stop its server first.
    """
    # Here, not above: the help needs no engine.
    from penstock.engine.backup.restore import check_backup  # noqa: PLC0415
    from penstock.engine.engine import Engine  # noqa: PLC0415

    if check:
        found = check_backup(directory)
        say(f"whole: {words_of(found)}")
        write_result(output, result_of(found, directory))
        return
    engine = Engine.open(data_directory(context, url))
    try:
        found = engine.backup(directory)
    finally:
        engine.close()
    say(f"backed up to {directory}: {words_of(found)}")
    write_result(output, result_of(found, directory))


def words_of(found: BackupInventory) -> str:
    """Return what a backup holds, in words."""
    return f"{count(found.tables, 'table')}, {count(len(found.files), 'file')}, {count_bytes(found.bytes)}"


def result_of(found: BackupInventory, directory: Path) -> dict[str, Any]:
    """Return what a backup holds, as a row."""
    return {"directory": str(directory), "tables": found.tables, "files": len(found.files), "bytes": found.bytes}


def data_directory(context: typer.Context, url: str | None, *, absent: bool = False) -> Path:
    """Return the data directory that is meant; one that is not there only if it may be `absent`.

    Raises:
        InvalidError: none is named, or a server is.
        NotFoundError: it is not there.
    """
    access = context.find_object(Access) or Access()
    name = url or access.url or os.environ.get(URL_VARIABLE)
    if not name or "://" in name:
        raise InvalidError("name the data directory itself, on its own machine: --url ./data", url=name)
    path = Path(name)
    if not absent and not path.is_dir():
        raise NotFoundError("no such data directory", directory=name)
    return path
