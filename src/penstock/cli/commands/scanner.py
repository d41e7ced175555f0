"""`penstock scanner`: scan sessions, one's own and others'."""

from __future__ import annotations

from typing import Annotated, Final

import pyarrow as pa
import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.terminal.options import Output, ResultOutput, Url
from penstock.cli.terminal.output import write_records, write_result
from penstock.cli.terminal.words import examples, say
from penstock.model.place.bucket import bucket_key

SCANNERS: Final = pa.schema(
    [
        ("scanner_id", pa.string()),
        ("table", pa.string()),
        ("bucket", pa.string()),
        ("log_offset", pa.int64()),
        ("principal", pa.string()),
        ("opened", pa.timestamp("ms", "UTC")),
        ("idle_ms", pa.int64()),
        ("pages", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)

app = typer.Typer(rich_markup_mode="rich", add_completion=False, no_args_is_help=True)


@app.callback()
def scanner() -> None:
    """List or end scan sessions."""


@app.command("list", epilog=examples("penstock scanner list", "penstock scanner list --output json"))
def list_scanners(context: typer.Context, *, output: Output = None, url: Url = None) -> None:
    """List the open scan sessions: whose they are, how far, how long idle."""
    with open_connection(context, url) as connection:
        records = [
            {
                "scanner_id": found.scanner_id,
                "table": found.bucket.table,
                "bucket": bucket_key(found.bucket),
                "log_offset": found.log_offset,
                "principal": found.principal,
                "opened": found.opened_ms,
                "idle_ms": found.idle_ms,
                "pages": found.pages,
                "rows": found.rows,
                "bytes": found.bytes,
            }
            for found in connection.list_scanners()
        ]
        write_records(output, SCANNERS, records)


@app.command(epilog=examples("penstock scanner kill 5f0c2a9e"))
def kill(
    context: typer.Context,
    scanner_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="As `penstock scanner list` shows them.")],
    *,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """End scan sessions; a reader that resumes by token goes on in another."""
    with open_connection(context, url) as connection:
        for scanner_id in scanner_ids:
            connection.kill_scanner(scanner_id)
            say(f"ended {scanner_id}")
        write_result(output, *({"scanner_id": scanner_id} for scanner_id in scanner_ids))
