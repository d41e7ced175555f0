"""`penstock table`: make, list, show, change and drop tables."""

from __future__ import annotations

from typing import Annotated, Any, Final

import pyarrow as pa
import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.commands.table_description import describe_table, write_description
from penstock.cli.input.table_alteration import steps_of
from penstock.cli.terminal.confirmation import confirm
from penstock.cli.terminal.options import (
    Output,
    OutputFormat,
    ReadOnly,
    ResultOutput,
    TablePathArgument,
    Url,
    Yes,
    read_pairs,
    shows_text,
    split_names,
)
from penstock.cli.terminal.output import write_records, write_result
from penstock.cli.terminal.words import examples, say
from penstock.client.table import Table
from penstock.model.table.merge_engine import MergeEngine
from penstock.model.words.names import TablePath

TABLES: Final = pa.schema(
    [
        ("table", pa.string()),
        ("primary_key", pa.string()),
        ("merge_engine", pa.string()),
        ("buckets", pa.int32()),
        ("columns", pa.int32()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)

app = typer.Typer(rich_markup_mode="rich", add_completion=False, no_args_is_help=True)


@app.callback()
def table() -> None:
    """Create, list, describe, alter and drop tables."""


@app.command(
    epilog=examples(
        'penstock table create shop.orders "id BIGINT, city STRING, amount DOUBLE, PRIMARY KEY (id)" --buckets 4',
        'penstock table create shop.revenue "city STRING, day DATE, revenue DECIMAL(18,2) SUM, '
        'PRIMARY KEY (city, day)" --merge-engine aggregate',
        'penstock table create shop.clicks "at TIMESTAMP, page STRING" --property log.retention=1d',
    )
)
def create(
    context: typer.Context,
    path: TablePathArgument,
    ddl: Annotated[str, typer.Argument(metavar="DDL", help="Columns with types, and PRIMARY KEY (...).")],
    *,
    merge_engine: Annotated[
        MergeEngine | None, typer.Option(help="What a write to an existing key does.", show_default=False)
    ] = None,
    version_column: Annotated[str | None, typer.Option(help="With versioned: the column that decides.")] = None,
    buckets: Annotated[int, typer.Option(min=1, help="How many buckets rows are spread over.")] = 1,
    bucket_key: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Key columns that choose the bucket; all by default.")
    ] = None,
    partitioned_by: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Columns that choose the partition.")
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", "-p", metavar="NAME=VALUE", help="A property; may be repeated.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Do nothing if it is there.")] = False,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Create a table, and its database if that is not there yet."""
    given = read_pairs(properties or [], "--property")
    with open_connection(context, url, create=True) as connection:
        connection.create_database(TablePath.parse(path).database, if_not_exists=True)
        made = connection.create_table(
            path,
            ddl,
            merge_engine=merge_engine,
            version_column=version_column,
            buckets=buckets,
            bucket_key=split_names(bucket_key),
            partitioned_by=split_names(partitioned_by),
            properties=given,
            if_not_exists=if_not_exists,
        )
        say(f"{made.path} is there: {made!r}")
        write_result(output, _made(made))


@app.command("list", epilog=examples("penstock table list", "penstock table list shop --output json"))
def list_tables(
    context: typer.Context,
    database: Annotated[str | None, typer.Argument(help="Only this database.", show_default=False)] = None,
    *,
    output: Output = None,
    read_only: ReadOnly = False,
    url: Url = None,
) -> None:
    """List tables with their size."""
    with open_connection(context, url, read_only=read_only) as connection:
        databases = connection.list_databases() if database is None else [database]
        records = []
        for path in (f"{name}.{found}" for name in databases for found in connection.list_tables(name)):
            handle = connection.table(path)
            stats, info = handle.stats(), handle.info
            records.append(
                {
                    "table": info.path,
                    "primary_key": ",".join(info.primary_key) or None,
                    "merge_engine": None if info.merge_engine is None else info.merge_engine.value,
                    "buckets": info.buckets,
                    "columns": len(info.schema.columns),
                    "rows": stats.live_rows,
                    "bytes": stats.bytes,
                }
            )
        write_records(output, TABLES, records)


@app.command(epilog=examples("penstock table describe shop.orders", "penstock table describe shop.orders -o json"))
def describe(
    context: typer.Context,
    path: TablePathArgument,
    *,
    output: Output = None,
    read_only: ReadOnly = False,
    url: Url = None,
) -> None:
    """Show a table's columns, keys, buckets, properties and state."""
    with open_connection(context, url, read_only=read_only) as connection:
        described = describe_table(connection.table(path))
        if shows_text(output):
            write_description(described)
        else:
            write_records(output or OutputFormat.NDJSON, described.schema, described.to_pylist())


@app.command(epilog=examples("penstock table drop shop.orders --yes"))
def drop(
    context: typer.Context,
    path: TablePathArgument,
    *,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do nothing if it is not there.")] = False,
    yes: Yes = False,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Drop a table with all its rows."""
    with open_connection(context, url) as connection:
        confirm(f"Drop {path} with all its rows?", "dropped", yes=yes)
        connection.drop_table(path, if_exists=if_exists)
        say(f"dropped {path}")
        write_result(output, {"table": str(TablePath.parse(path))})


@app.command(
    epilog=examples(
        'penstock table alter shop.orders --add "note STRING" --default note=none',
        "penstock table alter shop.orders --rename amount=total --widen total=BIGINT --drop remark",
        'penstock table alter shop.revenue --add "best DECIMAL(18,2) MAX"',
        "penstock table alter shop.orders --set log.retention=1d --unset delete.behavior",
    )
)
def alter(
    context: typer.Context,
    path: TablePathArgument,
    *,
    add: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help='Add a column, such as "note STRING"; may be repeated.')
    ] = None,
    default: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="What rows have that lack an added column.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Drop a column with its values.")] = None,
    rename: Annotated[list[str] | None, typer.Option(metavar="OLD=NEW", help="Give a column another name.")] = None,
    widen: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=TYPE", help="Give a column a wider type, such as BIGINT.")
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a property; may be repeated.")
    ] = None,
    unset: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Set a property back to its default.")] = None,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Change columns and properties: drops first, then names, types, new columns, properties."""
    steps = steps_of(
        drop=drop or (),
        rename=rename or (),
        widen=widen or (),
        add=add or (),
        default=default or (),
        properties=properties or (),
        unset=unset or (),
    )
    with open_connection(context, url) as connection:
        table = connection.table(path)
        for step in steps:
            step.make(table)
            say(f"{table.path}: {step.words}")
        write_result(output, _made(table))


def _made(table: Table) -> dict[str, Any]:
    info = table.info
    return {"table": info.path, "table_id": info.table_id, "columns": [column.name for column in info.schema.columns]}
