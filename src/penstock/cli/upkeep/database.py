"""`penstock database`: make, list and drop databases."""

from __future__ import annotations

from typing import Annotated, Final

import pyarrow as pa
import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.terminal.confirmation import confirm
from penstock.cli.terminal.options import Output, ResultOutput, Url, Yes
from penstock.cli.terminal.output import write_records, write_result
from penstock.cli.terminal.words import count, examples, say
from penstock.errors import DatabaseNotFoundError

DATABASES: Final = pa.schema([("database", pa.string()), ("tables", pa.int64())])

DatabaseName = Annotated[str, typer.Argument(metavar="DATABASE", help="The database's name.")]

app = typer.Typer(rich_markup_mode="rich", add_completion=False, no_args_is_help=True)


@app.callback()
def database() -> None:
    """Create, list and drop databases."""


@app.command(epilog=examples("penstock database create shop", "penstock database create shop --if-not-exists"))
def create(
    context: typer.Context,
    name: DatabaseName,
    *,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Do nothing if it is there.")] = False,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Create a database. `penstock table create` makes the table's database by itself."""
    with open_connection(context, url, create=True) as connection:
        connection.create_database(name, if_not_exists=if_not_exists)
        say(f"database {name} is there")
        write_result(output, {"database": name})


@app.command("list", epilog=examples("penstock database list", "penstock database list --output json"))
def list_databases(context: typer.Context, *, output: Output = None, url: Url = None) -> None:
    """List databases, and how many tables each has."""
    with open_connection(context, url) as connection:
        records = []
        for name in connection.list_databases():
            try:
                records.append({"database": name, "tables": len(connection.list_tables(name))})
            except DatabaseNotFoundError:
                # Dropped since it was listed.
                continue
        write_records(output, DATABASES, records)


@app.command(epilog=examples("penstock database drop shop", "penstock database drop shop --cascade --yes"))
def drop(
    context: typer.Context,
    name: DatabaseName,
    *,
    cascade: Annotated[bool, typer.Option("--cascade", help="Drop its tables too, with all their rows.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do nothing if it is not there.")] = False,
    yes: Yes = False,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Drop a database; one that has tables only with --cascade, which asks first."""
    with open_connection(context, url) as connection:
        tables = connection.list_tables(name) if cascade and name in connection.list_databases() else []
        if tables:
            confirm(f"Drop {name} with {count(len(tables), 'table')} and all their rows?", "dropped", yes=yes)
        connection.drop_database(name, cascade=cascade, if_exists=if_exists)
        say(f"dropped {name}")
        write_result(output, {"database": name})
