"""`penstock tail`: a table's changes, and those to come."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from penstock.cli.commands.access import open_connection, open_table
from penstock.cli.input.bucket_offsets import read_json_object, read_offsets
from penstock.cli.terminal.options import Columns, LeaseOption, Output, ReadOnly, TablePathArgument, Url, split_names
from penstock.cli.terminal.output import RowSink, open_sink
from penstock.cli.terminal.words import count_rows, examples, is_watched, say
from penstock.client.changes.range import NamedStart
from penstock.client.changes.stream import ChangeStream
from penstock.client.table import Table
from penstock.errors import InvalidError
from penstock.model.node.calls import Images

SNAPSHOT: Final = "snapshot"

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog=examples(
        "penstock tail shop.orders",
        "penstock tail shop.orders --follow",
        "penstock tail shop.orders --from snapshot --follow --output ndjson | my-consumer",
        "penstock tail shop.orders --from 2026-07-01T12:00:00Z --images after",
        "penstock tail shop.orders --follow --filter \"city = 'Ulm'\"",
        "penstock tail shop.orders --from '{\"0\": 17}'",
    )
)
def tail(
    context: typer.Context,
    table: TablePathArgument,
    *,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="START",
            help="earliest, latest, snapshot (the rows first, then their changes), a time in ISO 8601, offsets by "
            "bucket as JSON, or the position that a tail ended with. By default earliest, or latest with --follow.",
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for changes to come; Ctrl-C ends it.")] = False,
    images: Annotated[Images, typer.Option(help="Rows before and after an update, or after it only.")] = Images.FULL,
    columns: Columns = None,
    filter: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="SQL",
            help="Only changes of rows for which this is true; a row that leaves them is a -D, one that enters a +I.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=0, help="At most so many rows.")] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --follow: end when no change came for so long (5s, 1min).")
    ] = None,
    lease: LeaseOption = None,
    output: Output = None,
    read_only: ReadOnly = False,
    url: Url = None,
) -> None:
    """Read a table's changes, and follow them.

    Each row says in _change_type what it is (+I, -U, +U, -D; +A in a log table), and in _offset where it
    stands. At the end the position is said, from which another tail goes on.
    """
    with open_connection(context, url, read_only=read_only) as connection:
        handle = open_table(connection, table, lease)
        options = {
            "follow": follow,
            "timeout": timeout,
            "columns": split_names(columns),
            "images": images,
            "filter": filter,
        }
        with _open(handle, start, options) as stream, _ended_by_interrupt(stream):
            rows, position = _show(stream, open_sink(output, stream.schema), limit)
        if follow or is_watched():
            say(f"{count_rows(rows)}; go on with --from '{position}'")


def read_start(table: Table, text: str) -> Any:
    """Return where a stream starts from what was said.

    Raises:
        InvalidError: it is not understood.
    """
    if text in list(NamedStart):
        return NamedStart(text)
    if text.lstrip().startswith("{"):
        found = read_json_object(text, "--from")
        return text if "version" in found else read_offsets(table.info, found, "--from")
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidError(
            "--from takes earliest, latest, snapshot, a time such as 2026-07-01T12:00:00Z, or json offsets by bucket"
        ) from error


def _open(table: Table, start: str | None, options: dict[str, Any]) -> ChangeStream:
    if start == SNAPSHOT:
        return table.snapshot_and_follow(**options)
    default = NamedStart.LATEST if options["follow"] else NamedStart.EARLIEST
    return table.changes(read_start(table, start or default), **options)


def _show(stream: ChangeStream, sink: RowSink, limit: int | None) -> tuple[int, str]:
    """Write changes until there are no more; return how many rows, and the position after the last batch."""
    rows, position = 0, stream.position
    while limit is None or rows < limit:
        batch = next(stream, None)
        if batch is None:
            break
        shown = batch if limit is None else batch.slice(0, limit - rows)
        sink.write(shown)
        sys.stdout.flush()
        rows += shown.num_rows
        # A batch that was cut will be read again: the position never passes a row that was not shown.
        if shown.num_rows == batch.num_rows:
            position = stream.position
    sink.close()
    sys.stdout.flush()
    return rows, position


@contextmanager
def _ended_by_interrupt(stream: ChangeStream) -> Iterator[None]:
    """Let the first Ctrl-C end the stream between two batches, and the second one the command."""

    def end(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        # Not here: the handler may run inside a call of the stream's own.
        threading.Thread(target=stream.close, name="penstock-tail-end").start()

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
