"""`penstock put`: the rows of files into a table."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.input.change_pairs import whole_updates
from penstock.cli.input.inputs import InputFile
from penstock.cli.input.missing_columns import Missing, MissingColumns
from penstock.cli.input.put_progress import PutProgress
from penstock.cli.input.row_writer import RowWriter
from penstock.cli.terminal.options import InputFormat, ResultOutput, TablePathArgument, Url, split_names
from penstock.cli.terminal.output import write_result
from penstock.cli.terminal.words import count_rows, examples, say
from penstock.errors import InvalidError, PenstockError
from penstock.model.node.calls import Operation

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog=examples(
        "penstock put shop.orders orders.csv more.parquet",
        "penstock put shop.orders prices.csv --columns price",
        "penstock put shop.orders patch.ndjson --missing keep",
        "penstock put shop.orders gone.ndjson --operation delete --output json",
        "penstock scan shop.orders -o arrow | penstock put shop.copy - --format arrow",
        "penstock tail shop.orders -f | penstock put shop.copy - --format ndjson --operation apply",
    )
)
def put(
    context: typer.Context,
    table: TablePathArgument,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="CSV, JSON lines or array, Parquet or Arrow; - is stdin.")
    ],
    *,
    operation: Annotated[
        Operation | None,
        typer.Option(
            help="What to do with the rows; apply takes what `tail` writes. Default: upsert; append without a key.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns", "-c", metavar="A,B", help="Upsert: write only these. Delete: null these, keep the row."
        ),
    ] = None,
    missing: Annotated[
        Missing,
        typer.Option(
            help="Where a row lacks a column: stop (refuse), leave what is stored (keep), or set it to null (null)."
        ),
    ] = Missing.REFUSE,
    format: Annotated[
        InputFormat | None, typer.Option("--format", help="What the files hold, if their names do not say.")
    ] = None,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Write the rows of files into a table.

    Column names come from the files; order does not matter. A row has every column of the table, or of
    --columns, unless --missing says what a missing one means. Rows are durable and visible batch by batch; at a
    bad row it stops, names the place, and says how many rows were written before.
    """
    sources = [InputFile(name, format) for name in files]
    named = split_names(columns)
    with open_connection(context, url) as connection:
        handle = connection.table(table)
        chosen = operation or (Operation.UPSERT if handle.info.keyed else Operation.APPEND)
        if named is not None and chosen not in (Operation.UPSERT, Operation.DELETE):
            raise InvalidError("--columns goes with upsert and delete")
        rule = MissingColumns(handle.info, chosen, missing, named)
        rows = RowWriter(handle, chosen, rule)
        began = time.monotonic()
        try:
            with PutProgress(sources, lambda: rows.written) as progress, rows:
                for source in sources:
                    blocks = source.blocks(handle.schema, rule.arrange)
                    for block in whole_updates(blocks) if chosen is Operation.APPLY else blocks:
                        rows.take(block)
                        progress.move()
        except PenstockError as error:
            error.add_note(f"written before it: {count_rows(rows.written)}")
            raise
        except KeyboardInterrupt:
            say(f"interrupted; written before it: {count_rows(rows.written)}")
            raise
    seconds = time.monotonic() - began
    say(f"{count_rows(rows.written)} in {seconds:.1f}s, {rows.written / max(seconds, 0.001):,.0f} rows/s")
    write_result(output, {"table": handle.path, "operation": chosen.value, "rows": rows.written, "seconds": seconds})
