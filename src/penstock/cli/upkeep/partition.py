"""`penstock partition`: make, list and drop the partitions of a table."""

from __future__ import annotations

from typing import Annotated, Any, Final

import pyarrow as pa
import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.terminal.confirmation import confirm
from penstock.cli.terminal.options import Output, ResultOutput, TablePathArgument, Url, Yes
from penstock.cli.terminal.output import write_records, write_result
from penstock.cli.terminal.words import count_rows, examples, say
from penstock.client.table import Table
from penstock.errors import InvalidError, UnsupportedError
from penstock.model.table.partition import parse_partition_name, partition_columns, partition_name

PARTITIONS: Final = pa.schema(
    [
        ("partition", pa.string()),
        ("buckets", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("changes", pa.int64()),
        ("pins", pa.int64()),
    ]
)

PartitionName = Annotated[
    str,
    typer.Argument(
        metavar="PARTITION", help="The values of its columns: day=2026-07-01, or day=2026-07-01/city=Ulm of two."
    ),
]

app = typer.Typer(rich_markup_mode="rich", add_completion=False, no_args_is_help=True)


@app.callback()
def partition() -> None:
    """Create, list and drop partitions of a table."""


@app.command(epilog=examples("penstock partition create shop.revenue day=2026-07-01"))
def create(
    context: typer.Context,
    table: TablePathArgument,
    name: PartitionName,
    *,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Do nothing if it is there.")] = False,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Create a partition. Writes create theirs by themselves, unless the table's partition.auto-create is false."""
    with open_connection(context, url) as connection:
        handle = connection.table(table)
        made = handle.create_partition(read_partition(handle, name), if_not_exists=if_not_exists)
        say(f"{handle.path} has partition {made}")
        write_result(output, {"table": handle.path, "partition": made})


@app.command(
    "list", epilog=examples("penstock partition list shop.revenue", "penstock partition list shop.revenue -o json")
)
def list_partitions(
    context: typer.Context, table: TablePathArgument, *, output: Output = None, url: Url = None
) -> None:
    """List a table's partitions with their size."""
    with open_connection(context, url) as connection:
        handle = connection.table(table)
        _require_partitions(handle)
        figures = {name: dict.fromkeys(PARTITIONS.names[1:], 0) for name in handle.list_partitions()}
        for found in handle.stats().buckets:
            sums = figures.get(found.bucket.partition or "")
            if sums is None:
                continue
            sums["buckets"] += 1
            sums["rows"] += found.live_rows
            sums["bytes"] += found.bytes
            sums["changes"] += found.visible - found.bucket.first_offset(found.visible)
            sums["pins"] += len(found.pins)
        write_records(output, PARTITIONS, [{"partition": name, **sums} for name, sums in figures.items()])


@app.command(
    epilog=examples(
        "penstock partition drop shop.revenue day=2026-07-01",
        "penstock partition drop shop.revenue day=2026-07-01 --yes",
    )
)
def drop(
    context: typer.Context,
    table: TablePathArgument,
    name: PartitionName,
    *,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do nothing if it is not there.")] = False,
    yes: Yes = False,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Drop a partition with all its rows."""
    with open_connection(context, url) as connection:
        handle = connection.table(table)
        values = read_partition(handle, name)
        confirm(lambda: f"Drop {name} of {handle.path} with {_rows(handle, values)}?", "dropped", yes=yes)
        handle.drop_partition(values, if_exists=if_exists)
        say(f"dropped {name} of {handle.path}")
        write_result(output, {"table": handle.path, "partition": name})


def read_partition(table: Table, name: str) -> dict[str, Any]:
    """Return the values of a partition's columns, in any order.

    Raises:
        InvalidError: they are not those of the partition columns.
        UnsupportedError: the table is not partitioned.
    """
    _require_partitions(table)
    by = table.info.partitioned_by
    given = dict(part.partition("=")[::2] for part in name.split("/"))
    if sorted(given) != sorted(by) or len(given) != name.count("/") + 1:
        shown = "/".join(f"{column}=..." for column in by)
        raise InvalidError(f"a partition of this table is named as {shown}; this is {name!r}", table=table.path)
    columns = partition_columns(table.info.schema, by)
    return parse_partition_name(columns, "/".join(f"{column}={given[column]}" for column in by))


def _require_partitions(table: Table) -> None:
    if not table.info.partitioned:
        raise UnsupportedError("the table is not partitioned", table=table.path)


def _rows(table: Table, values: dict[str, Any]) -> str:
    name = partition_name(partition_columns(table.info.schema, table.info.partitioned_by), values)
    return count_rows(sum(found.live_rows for found in table.stats().buckets if found.bucket.partition == name))
