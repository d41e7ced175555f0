"""`penstock delete`: the rows of a table that match a filter."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.terminal.confirmation import confirm
from penstock.cli.terminal.options import ResultOutput, TablePathArgument, Url, Yes
from penstock.cli.terminal.output import write_result
from penstock.cli.terminal.words import count_rows, examples, say
from penstock.client.table import Table
from penstock.errors import InvalidError

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog=examples(
        "penstock delete shop.orders --where \"city = 'Ulm' AND amount < 10\"",
        'penstock delete shop.orders --where "id IN (1, 2, 3)" --yes',
        "penstock put shop.orders gone.csv --operation delete",
    )
)
def delete(
    context: typer.Context,
    table: TablePathArgument,
    *,
    where: Annotated[
        str, typer.Option("--where", metavar="FILTER", help="The rows for which this is true, as in SQL.")
    ],
    yes: Yes = False,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Delete the rows that match a filter.

    They are those of one cut, found and deleted on the server; the changelog has a delete for each. It counts them
    and asks first. Rows by their keys are deleted with `penstock put TABLE FILE --operation delete`.
    """
    if not where.strip():
        raise InvalidError("say which rows: --where FILTER; `penstock truncate` deletes all")
    with open_connection(context, url) as connection:
        handle = connection.table(table)
        confirm(lambda: f"Delete {count_rows(_count(handle, where))} of {handle.path}?", "deleted", yes=yes)
        done = handle.delete_where(where)
        say(f"deleted {count_rows(done.changes)} of {handle.path}")
        write_result(output, {"table": handle.path, "rows": done.changes})


def _count(table: Table, where: str) -> int:
    with table.scan(list(table.info.primary_key) or None, where) as rows:
        return sum(batch.num_rows for batch in rows)
