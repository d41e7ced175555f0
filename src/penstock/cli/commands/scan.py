"""`penstock scan`: a table at one cut."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.commands.access import open_connection, open_table
from penstock.cli.input.bucket_offsets import format_offsets, read_json_object, read_offsets
from penstock.cli.terminal.options import Columns, LeaseOption, Output, ReadOnly, TablePathArgument, Url, split_names
from penstock.cli.terminal.output import write_batches
from penstock.cli.terminal.row_progress import watch_rows
from penstock.cli.terminal.words import count_rows, examples, is_watched, say
from penstock.client.scan.request import ScanSource
from penstock.client.table import Table

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog=examples(
        "penstock scan shop.orders --limit 10",
        "penstock scan shop.orders -c id,amount --filter \"amount > 10 AND city = 'Ulm'\" -o csv > orders.csv",
        "penstock scan shop.orders -o parquet > orders.parquet",
        "penstock scan shop.orders --lease job-7",
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
        typer.Option(metavar="JSON", help="The table as it was at an offset of each bucket."),
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
        chosen = None if as_of is None else read_offsets(handle.info, read_json_object(as_of, "--as-of"), "--as-of")
        rows = handle.scan(
            split_names(columns), filter, limit, chosen, ScanSource.LIVE_KV if source is None else source
        )
        with rows:
            written = write_batches(
                output, rows.schema, watch_rows(rows, lambda: limit if lease else _expected(handle, filter, limit))
            )
        if is_watched():
            say(f"{count_rows(written)} as of {format_offsets(rows.log_offsets)}")


def _expected(handle: Table, filter: str | None, limit: int | None) -> int | None:
    if filter is not None:
        return limit
    rows = handle.stats().live_rows
    return rows if limit is None else min(rows, limit)
