"""`penstock lookup`: rows by key."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.input.inputs import InputFile
from penstock.cli.input.text_values import from_word
from penstock.cli.terminal.options import (
    Columns,
    InputFormat,
    Output,
    ReadOnly,
    TablePathArgument,
    Url,
    read_pairs,
    split_names,
)
from penstock.cli.terminal.output import write_batches
from penstock.cli.terminal.words import examples
from penstock.client.table import Table
from penstock.errors import InvalidError, NotFoundError
from penstock.model.place.system_columns import FOUND

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog=examples(
        "penstock lookup shop.orders id=17",
        "penstock lookup shop.orders 17",
        "penstock lookup shop.revenue city=Ulm day=2026-07-01 --output json",
        "penstock lookup shop.revenue city=Ulm --prefix",
        "penstock lookup shop.orders --keys keys.csv --columns amount",
    )
)
def lookup(
    context: typer.Context,
    table: TablePathArgument,
    key: Annotated[
        list[str] | None,
        typer.Argument(metavar="COLUMN=VALUE...", help="The key, column by column; of one column, its value will do."),
    ] = None,
    *,
    keys: Annotated[
        str | None, typer.Option(metavar="FILE", help="Look up every key of a file; - is stdin.", show_default=False)
    ] = None,
    format: Annotated[InputFormat | None, typer.Option("--format", help="What the file of keys holds.")] = None,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="All rows whose first key columns have these values.")
    ] = False,
    columns: Columns = None,
    output: Output = None,
    read_only: ReadOnly = False,
    url: Url = None,
) -> None:
    """Read rows by key.

    For a single key, the row or exit code 3. With --keys, a row for each key in the order of the file;
    _found says whether it is there.
    """
    if (keys is None) == (not key) or (prefix and keys is not None):
        raise InvalidError("give the key as column=value, or a file with --keys")
    source = None if keys is None else InputFile(keys, format)
    with open_connection(context, url, read_only=read_only) as connection:
        handle = connection.table(table)
        named = split_names(columns)
        if source is not None:
            _write_all(handle, source, named, output)
            return
        values = _read_key(handle, key or [])
        if prefix:
            found = handle.prefix_lookup(**values)
            found = found if named is None else found.select(named)
        else:
            found = handle.lookup([values], named)
            if not found.column(FOUND)[0].as_py():
                raise NotFoundError("no row has this key", table=handle.path, **values)
            found = found.drop_columns(FOUND)
        write_batches(output, found.schema, found.to_batches())


def _read_key(table: Table, given: list[str]) -> dict[str, object]:
    primary_key = table.info.primary_key
    if len(primary_key) == len(given) == 1 and "=" not in given[0]:
        given = [f"{primary_key[0]}={given[0]}"]
    pairs = read_pairs(given, "a key")
    unknown = [name for name in pairs if name not in primary_key]
    if unknown:
        raise InvalidError("not a column of the primary key", column=unknown[0], primary_key=list(primary_key))
    return {name: from_word(text, table.schema.field(name)) for name, text in pairs.items()}


def _write_all(table: Table, source: InputFile, columns: list[str] | None, output: Output) -> None:
    def found() -> pa.RecordBatchReader:
        for block in source.blocks(table.schema):
            try:
                yield from table.lookup(block.data, columns).to_batches()
            except InvalidError as error:
                raise block.locate(error) from error

    schema = table.lookup(table.schema.empty_table().select(list(table.info.primary_key)), columns).schema
    write_batches(output, schema, found())
