"""`penstock truncate`: all rows of a table."""

from __future__ import annotations

import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.terminal.confirmation import confirm
from penstock.cli.terminal.options import ResultOutput, TablePathArgument, Url, Yes
from penstock.cli.terminal.output import write_result
from penstock.cli.terminal.words import count_rows, examples, say

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(epilog=examples("penstock truncate shop.orders", "penstock truncate shop.orders --yes --output json"))
def truncate(
    context: typer.Context,
    table: TablePathArgument,
    *,
    yes: Yes = False,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Delete all rows of a table.

    The table stays, and its changelog has a delete for each row. Of a table without a key, which has no deletes,
    the rows are gone for new readers, and their space is given back when nothing reads them any more. It asks first.
    """
    with open_connection(context, url) as connection:
        handle = connection.table(table)
        confirm(lambda: f"Delete all {count_rows(handle.stats().live_rows)} of {handle.path}?", "truncated", yes=yes)
        done = handle.truncate()
        rows = done.rows if not handle.info.keyed else done.changes
        say(f"deleted {count_rows(rows)} of {handle.path}")
        write_result(output, {"table": handle.path, "rows": rows})
