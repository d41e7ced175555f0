"""`penstock scan`: a table at one cut."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from penstock.cli.commands.access import open_connection, open_table
from penstock.cli.input.bucket_offsets import format_offsets, read_json_object, read_offsets
from penstock.cli.terminal.options import Columns, LeaseOption, Output, ReadOnly, TablePathArgument, Url, split_names
from penstock.cli.terminal.output import write_batches
from penstock.cli.terminal.row_progress import watch_rows
from penstock.cli.terminal.words import count_rows, examples, is_watched, say
from penstock.client.cut.as_of import AsOfLike, is_moment_text
from penstock.client.scan.request import ScanSource
from penstock.client.table import Table
from penstock.errors import InvalidError

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog=examples(
        "penstock scan shop.orders --limit 10",
        "penstock scan shop.orders -c id,amount --filter \"amount > 10 AND city = 'Ulm'\" -o csv > orders.csv",
        "penstock scan shop.orders -o parquet > orders.parquet",
        "penstock scan shop.orders --lease job-7",
        "penstock scan shop.orders --as-of 2026-11-18T10:00:00Z",
        "penstock scan shop.orders --order-by 'amount desc' --limit 10",
        'penstock scan shop.orders --as-of \'{"0": 17, "1": 20}\'',
    )
)
def scan(
    context: typer.Context,
    table: TablePathArgument,
    *,
    columns: Columns = None,
    filter: Annotated[
        str | None, typer.Option("--filter", metavar="SQL", help="Only rows for which this is true.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=0, help="At most so many rows.")] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The table as it was at a moment such as 2026-11-18T10:00:00Z, or at offsets or a cut as JSON.",
        ),
    ] = None,
    order_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="The first rows in this order, such as 'amount desc, id'; needs --limit."),
    ] = None,
    source: Annotated[
        ScanSource | None,
        typer.Option(help="Live rows, a snapshot, or the log; a table without a key has its log.", show_default=False),
    ] = None,
    lease: LeaseOption = None,
    output: Output = None,
    read_only: ReadOnly = False,
    url: Url = None,
) -> None:
    """Read a table at one consistent cut.

    Every row is as it was at the moment of the cut, whatever is written meanwhile. Rows are written as they
    come; nothing holds the whole table.
    """
    with open_connection(context, url, read_only=read_only) as connection:
        handle = open_table(connection, table, lease)
        chosen = None if as_of is None else _past(handle, as_of)
        rows = handle.scan(
            split_names(columns),
            filter,
            limit,
            chosen,
            ScanSource.LIVE_KV if source is None else source,
            order_by=order_by,
        )
        with rows:
            written = write_batches(
                output, rows.schema, watch_rows(rows, lambda: limit if lease else _expected(handle, filter, limit))
            )
        if is_watched():
            say(f"{count_rows(written)} as of {format_offsets(rows.log_offsets)}")


def _past(table: Table, text: str) -> AsOfLike:
    """Return the past that --as-of names.

    Raises:
        InvalidError: it is neither a moment that names its zone nor JSON.
    """
    if not is_moment_text(text):
        return read_offsets(table.info, read_json_object(text, "--as-of"), "--as-of")
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidError(
            "--as-of takes a moment such as 2026-11-18T10:00:00Z, or json such as '{\"0\": 17}'"
        ) from error
    if moment.utcoffset() is None:
        raise InvalidError("--as-of takes a moment with its zone, such as 2026-11-18T10:00:00Z")
    return moment


def _expected(handle: Table, filter: str | None, limit: int | None) -> int | None:
    if filter is not None:
        return limit
    rows = handle.stats().live_rows
    return rows if limit is None else min(rows, limit)
