"""`penstock put`: the rows of files into a table."""

from __future__ import annotations

import time
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.input.bad_rows import BadRows
from penstock.cli.input.inputs import STDIN, InputFile
from penstock.cli.terminal.options import InputFormat, ResultOutput, TablePathArgument, Url, split_names
from penstock.cli.terminal.output import write_result
from penstock.cli.terminal.words import count, count_rows, examples, say
from penstock.cli.write.careful_writer import CarefulWriter
from penstock.cli.write.change_pairs import whole_updates
from penstock.cli.write.missing_columns import Missing, MissingColumns
from penstock.cli.write.put_progress import PutProgress
from penstock.cli.write.row_writer import RowWriter
from penstock.errors import InvalidError, PenstockError
from penstock.model.node.calls import Operation

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog=examples(
        "penstock put shop.orders orders.csv more.parquet",
        "penstock put shop.orders prices.csv --columns price",
        "penstock put shop.orders patch.ndjson --missing keep",
        "penstock put shop.orders export.csv --delimiter ';' --skip-bad 100 --rejects bad.ndjson",
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
    delimiter: Annotated[
        str | None,
        typer.Option(
            metavar="CHAR", help="What stands between the values of CSV: a character, or tab. Default: a comma."
        ),
    ] = None,
    skip_bad: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Leave out up to N rows that do not fit; stop at one more.")
    ] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write rows that do not fit here, one JSON a line, with place and reason."),
    ] = None,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Write the rows of files into a table.

    Column names come from the files; order does not matter. A row has every column of the table, or of
    --columns, unless --missing says what a missing one means. Rows are durable and visible batch by batch; at a
    bad row it stops, names the place, and says how many rows were written before. With --skip-bad it goes on without
    that row, and what it says of written rows is exact at any end.
    """
    sources = [InputFile(name, format, read_delimiter(delimiter)) for name in files]
    if rejects is not None and any(name != STDIN and rejects.exists() and rejects.samefile(name) for name in files):
        raise InvalidError("--rejects names a file that is read; choose another", file=str(rejects))
    named = split_names(columns)
    with ExitStack() as stack:
        connection = stack.enter_context(open_connection(context, url))
        handle = connection.table(table)
        chosen = operation or (Operation.UPSERT if handle.info.keyed else Operation.APPEND)
        if named is not None and chosen not in (Operation.UPSERT, Operation.DELETE):
            raise InvalidError("--columns goes with upsert and delete")
        rule = MissingColumns(handle.info, chosen, missing, named)
        bad: BadRows | None = None
        rows: RowWriter | CarefulWriter
        if skip_bad is None and rejects is None:
            rows = RowWriter(handle, chosen, rule)
        else:
            bad = BadRows(skip_bad or 0, rejects)
            rows = CarefulWriter(handle, chosen, rule, bad)
        began = time.monotonic()
        try:
            with bad or nullcontext(), PutProgress(sources, lambda: rows.written) as progress, rows:
                for source in sources:
                    blocks = source.blocks(handle.schema, rule.arrange, bad, keyed=handle.info.keyed)
                    for block in whole_updates(blocks) if chosen is Operation.APPLY else blocks:
                        rows.take(block, uniform=source.uniform)
                        progress.move()
        except PenstockError as error:
            error.add_note(f"written before it: {count_rows(rows.written)}")
            raise
        except KeyboardInterrupt:
            say(f"interrupted; written before it: {count_rows(rows.written)}")
            raise
    seconds = time.monotonic() - began
    say(f"{count_rows(rows.written)} in {seconds:.1f}s, {rows.written / max(seconds, 0.001):,.0f} rows/s")
    done = {"table": handle.path, "operation": chosen.value, "rows": rows.written, "seconds": seconds}
    if bad is not None:
        done["skipped"] = bad.count
        if bad.count:
            say(f"{count(bad.count, 'bad row')} left out" + (f", see {rejects}" if rejects else ""))
    write_result(output, done)


def read_delimiter(text: str | None) -> str | None:
    """Return the character that separates values.

    Raises:
        InvalidError: it is none that can.
    """
    found = {"tab": "\t", "\\t": "\t"}.get(text or "", text)
    if found is None:
        return None
    if len(found) != 1 or not found.isascii() or found in '"\r\n':
        raise InvalidError(f"--delimiter takes one character, or tab; this is {text!r}")
    return found
