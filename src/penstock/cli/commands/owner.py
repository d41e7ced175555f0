"""`penstock owner`: jobs that hold columns, and what they have not committed."""

from __future__ import annotations

from typing import Annotated, Any, Final

import pyarrow as pa
import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.terminal.options import Output, ResultOutput, Url
from penstock.cli.terminal.output import write_records, write_result
from penstock.cli.terminal.words import count, examples, say
from penstock.client.connection import Connection
from penstock.errors import OwnerNotFoundError
from penstock.model.node.owner import OwnerInfo
from penstock.model.words.quantity import format_duration_ms

OWNERS: Final = pa.schema(
    [
        ("table", pa.string()),
        ("owner", pa.string()),
        ("columns", pa.string()),
        ("fence", pa.int64()),
        ("committed", pa.int64()),
        ("open", pa.int64()),
        ("rows_pending", pa.int64()),
        ("holder", pa.string()),
        ("expires_in", pa.string()),
    ]
)

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="The owner's table.")]
OwnerId = Annotated[str, typer.Argument(metavar="ID", help="As `penstock owner list` shows it.")]

app = typer.Typer(rich_markup_mode="rich", add_completion=False, no_args_is_help=True)


@app.callback()
def owner() -> None:
    """List, show, release and drop owners of columns."""


@app.command("list", epilog=examples("penstock owner list", "penstock owner list --output json"))
def list_owners(context: typer.Context, *, output: Output = None, url: Url = None) -> None:
    """List all owners: their columns, epochs, and how much they have not committed."""
    with open_connection(context, url) as connection:
        write_records(output, OWNERS, [_record(info) for info in connection.list_owners()])


@app.command(epilog=examples("penstock owner show shop.revenue job-7"))
def show(
    context: typer.Context, table: TableName, owner_id: OwnerId, *, output: Output = None, url: Url = None
) -> None:
    """Show one owner."""
    with open_connection(context, url) as connection:
        info = _find(connection, table, owner_id)
        if info.incarnation is not None:
            say(f"incarnation {info.incarnation}")
        write_records(output, OWNERS, [_record(info)])


@app.command(epilog=examples("penstock owner release shop.revenue job-7"))
def release(
    context: typer.Context, table: TableName, owner_id: OwnerId, *, output: ResultOutput = None, url: Url = None
) -> None:
    """Take an owner's columns away from its holder and free them; what is not committed is undone."""
    with open_connection(context, url) as connection:
        info = _find(connection, table, owner_id)
        handle = connection.table(table).acquire_owner(owner_id, info.columns or None, incarnation=info.incarnation)
        handle.release()
        say(f"released {owner_id}; {count(info.rows_pending, 'uncommitted row')} undone")
        write_result(output, {"table": info.table, "owner": owner_id, "rows_undone": info.rows_pending})


@app.command(epilog=examples("penstock owner drop shop.revenue job-7", "penstock owner drop shop.revenue job-7 --keep"))
def drop(
    context: typer.Context,
    table: TableName,
    owner_id: OwnerId,
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Leave rows that are not committed as they are.")] = False,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Forget an owner with its committed epoch; what is not committed is undone first."""
    with open_connection(context, url) as connection:
        result = connection.drop_owner(owner_id, table, undo=not keep)
        left = f"{result.superseded} left as others wrote them since"
        say(f"dropped {owner_id}; {count(result.keys, 'key')} undone, {left}")
        undone = {"keys_undone": result.keys, "keys_left": result.superseded}
        write_result(output, {"table": connection.table(table).path, "owner": owner_id, **undone})


def _find(connection: Connection, table: str, owner_id: str) -> OwnerInfo:
    path = connection.table(table).path
    for info in connection.list_owners():
        if (info.table, info.owner) == (path, owner_id):
            return info
    raise OwnerNotFoundError("no such owner on this table; see `penstock owner list`", owner=owner_id, table=path)


def _record(info: OwnerInfo) -> dict[str, Any]:
    return {
        "table": info.table,
        "owner": info.owner,
        "columns": ", ".join(info.columns),
        "fence": info.fence,
        "committed": None if info.committed_epoch < 0 else info.committed_epoch,
        "open": info.open_epoch,
        "rows_pending": info.rows_pending,
        "holder": info.holder,
        "expires_in": format_duration_ms(info.expires_in_ms) if info.held else None,
    }
