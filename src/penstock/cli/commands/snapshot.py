"""`penstock snapshot`: the snapshots of tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.terminal.options import Output, ReadOnly, TablePathArgument, Url
from penstock.cli.terminal.output import write_records
from penstock.cli.terminal.words import examples
from penstock.model.node.lease import Snapshot
from penstock.model.place.bucket import bucket_key

SNAPSHOTS: Final = pa.schema(
    [
        ("table", pa.string()),
        ("bucket", pa.string()),
        ("id", pa.int64()),
        ("offset", pa.int64()),
        ("created", pa.timestamp("ms", "UTC")),
        ("bytes", pa.int64()),
        ("leased_by", pa.string()),
        ("damaged", pa.string()),
    ]
)

app = typer.Typer(rich_markup_mode="rich", add_completion=False, no_args_is_help=True)


@app.callback()
def snapshot() -> None:
    """Take and list the snapshots of tables."""


@app.command(epilog=examples("penstock snapshot create shop.orders"))
def create(context: typer.Context, table: TablePathArgument, *, output: Output = None, url: Url = None) -> None:
    """Snapshot every bucket of a table at one cut; where nothing changed, the newest one is shown."""
    with open_connection(context, url) as connection:
        write_records(output, SNAPSHOTS, snapshot_records(connection.table(table).create_snapshot().values()))


@app.command("list", epilog=examples("penstock snapshot list shop.orders", "penstock snapshot list orders -o json"))
def list_snapshots(
    context: typer.Context,
    table: TablePathArgument,
    *,
    output: Output = None,
    read_only: ReadOnly = False,
    url: Url = None,
) -> None:
    """List the snapshots of a table: where they are, what they hold, and which leases hold them."""
    with open_connection(context, url, read_only=read_only) as connection:
        write_records(output, SNAPSHOTS, snapshot_records(connection.table(table).list_snapshots()))


def snapshot_records(snapshots: Iterable[Snapshot]) -> list[dict[str, Any]]:
    """Return snapshots as rows of `SNAPSHOTS`."""
    return [
        {
            "table": found.bucket.table,
            "bucket": bucket_key(found.bucket),
            "id": found.id,
            "offset": None if found.damaged else found.offset,
            "created": None if found.damaged else found.created_ms,
            "bytes": found.bytes,
            "leased_by": ", ".join(found.leased_by),
            "damaged": found.damaged,
        }
        for found in snapshots
    ]
