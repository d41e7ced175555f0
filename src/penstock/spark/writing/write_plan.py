"""What a job writes: which table, which operation, which of the data's columns, in which order. A plain value.

It is made once, on the driver, before a row moves: what does not fit the table is refused there. It goes
to the tasks with the job, so every task writes the columns that the table had when the job began.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as arrow
from pyspark.sql.types import StructField, StructType

from penstock.client.ingest.cast import castable
from penstock.client.link.link import Link
from penstock.errors import AlreadyExistsError, InvalidError, SchemaMismatchError, UnsupportedError
from penstock.model.node.calls import Operation
from penstock.model.place.system_columns import CHANGE_TYPE, RESERVED_NAMES
from penstock.model.schema.agg_mode import AggMode
from penstock.model.schema.types import canonical
from penstock.model.table.table import TableInfo
from penstock.model.words.names import fold
from penstock.spark.session.column_name import find_name
from penstock.spark.session.options import Options
from penstock.spark.session.spark_types import arrow_field


@dataclass(frozen=True)
class WritePlan:
    """One job's write. `sent` pairs a column of the data with its name in the table. Picklable."""

    options: Options
    info: TableInfo
    operation: Operation
    columns: tuple[str, ...] | None
    agg_mode: AggMode
    sent: tuple[tuple[str, str], ...]

    @property
    def folds_changes(self) -> bool:
        """Tell whether changes are folded into an aggregate, which takes their before-images back."""
        return self.operation is Operation.APPLY and self.info.retracts

    @property
    def locked_columns(self) -> list[str] | None:
        """Return the columns that the job must own; None for all, with those that are added while it runs.

        All only where rows may go, or are no rows of a key: a column that is added is for others to write.
        """
        named = {name for _, name in self.sent} if self.columns is None else set(self.columns)
        value_names = [column.name for column in self.info.schema.value_columns]
        held = [name for name in value_names if name in named]
        deletes = self.operation is Operation.DELETE or self.info.options.aggregate_delete_at_zero in named
        changes = self.operation in {Operation.APPEND, Operation.APPLY} and not self.folds_changes
        whole = changes or (self.operation is Operation.DELETE and self.columns is None)
        return None if whole or not held or (deletes and len(held) == len(value_names)) else held

    def sources(self, names: tuple[str, ...]) -> list[str]:
        """Return what the data calls these columns of the table.

        Raises:
            SchemaMismatchError: the data does not have one.
        """
        by_name = {name: source for source, name in self.sent}
        for name in names:
            if name not in by_name:
                raise SchemaMismatchError("a key column is missing from the data; add it", column=name)
        return [by_name[name] for name in names]


def plan_write(options: Options, link: Link, data: StructType) -> WritePlan:
    """Return what a job with these options and this data writes; add columns if `mergeSchema` says so.

    Raises:
        InvalidError: options and table do not go together.
        SchemaMismatchError: the data does not fit the table; names the column.
        TableNotFoundError: there is no such table.
    """
    info = link.retry.run(lambda: link.node.catalog.table(options.table))
    operation = _operation(options, info)
    mode = AggMode.parse(options.get("agg_mode") or AggMode.ACCUMULATE)
    if options.is_set("agg_mode") and not info.folds:
        raise InvalidError("only aggregating tables have an agg_mode; leave it out", table=info.path)
    wanted = options.names("columns")
    order = {fold(order_word(word, data.names)[0]) for word in options.names("order_by") or ()}
    strangers = [f for f in data.fields if _find(info, f.name) is None and not _passes(f.name, operation, order)]
    if strangers and wanted is None and operation is not Operation.DELETE:
        info = _grow(options, link, info, strangers)
    columns = None if wanted is None else _named(info, wanted)
    sent = _sent(info, data.names, operation, columns)
    _check_types(info, data, sent)
    return WritePlan(options.pinned(link.database), info, operation, columns, mode, sent)


def order_word(word: str, names: Iterable[str]) -> tuple[str, str]:
    """Return the column that a part of `order_by` names, and asc or desc; a name may have spaces itself."""
    name, _, direction = word.strip().rpartition(" ")
    if direction.lower() not in {"asc", "desc"} or not name or find_name(word, names) is not None:
        return word.strip(), "asc"
    return name.strip(), direction.lower()


def _operation(options: Options, info: TableInfo) -> Operation:
    word = options.get("operation")
    if word is None:
        return Operation.UPSERT if info.keyed else Operation.APPEND
    operation = Operation(options.choice("operation", list(Operation)))
    if operation is Operation.APPEND and info.keyed:
        raise UnsupportedError("only log tables take appends; use upsert", table=info.path)
    if operation not in {Operation.APPEND, Operation.APPLY} and not info.keyed:
        raise UnsupportedError(f"{operation} needs a table with a primary key; use append", table=info.path)
    if options.is_set("columns") and not _takes_columns(info, operation):
        kind = "a log table" if info.merge_engine is None else f"a table of the merge engine {info.merge_engine}"
        raise InvalidError(
            f"{operation} writes whole rows into {kind}; leave columns out", columns=options.get("columns")
        )
    return operation


def _takes_columns(info: TableInfo, operation: Operation) -> bool:
    """Tell whether an operation may write some columns of a table only."""
    if operation is Operation.APPLY:
        return info.retracts
    return info.takes_partial


def _find(info: TableInfo, name: str) -> str | None:
    """Return what the table calls a column: Spark's names have no case."""
    return find_name(name, info.schema.names)


def _passes(name: str, operation: Operation, order: set[str]) -> bool:
    """Tell whether a column that the table lacks may be in the data: it orders rows, or a changelog added it."""
    return fold(name) in order or (operation is Operation.APPLY and name in RESERVED_NAMES)


def _grow(options: Options, link: Link, info: TableInfo, strangers: list[StructField]) -> TableInfo:
    if not options.flag("merge_schema"):
        raise SchemaMismatchError(
            "the table has no such column; drop it from the data, or set mergeSchema=true to add it",
            column=strangers[0].name,
            table=info.path,
        )
    if info.folds:
        raise SchemaMismatchError(
            "a column of an aggregating table needs a function; add it with t.add_column(name, type, agg=...)",
            column=strangers[0].name,
            table=info.path,
        )
    # All types first: a table that grew by some columns of a job that is refused would be a surprise.
    types = [canonical(arrow_field(field).type, field.name) for field in strangers]
    for field, kind in zip(strangers, types, strict=True):
        # Another job may add it at the same time: then the data is checked against what that one added.
        with suppress(AlreadyExistsError):
            _add_column(link, info.table_id, field.name, kind)
    return link.retry.run(lambda: link.node.catalog.table(options.table))


def _add_column(link: Link, table_id: int, name: str, kind: pa.DataType) -> None:
    link.once(lambda node: node.catalog.add_column(table_id, name, kind))


def _named(info: TableInfo, wanted: tuple[str, ...]) -> tuple[str, ...]:
    found = [_find(info, name) for name in wanted]
    for name, known in zip(wanted, found, strict=True):
        if known is None:
            raise SchemaMismatchError("columns= names a column that the table lacks", column=name, table=info.path)
    return tuple(known for known in found if known is not None)


def _sent(
    info: TableInfo, offered: list[str], operation: Operation, columns: tuple[str, ...] | None
) -> tuple[tuple[str, str], ...]:
    have = {known: name for name in offered if (known := _find(info, name)) is not None}
    key = set(info.primary_key)
    if operation is Operation.DELETE:
        needed = key
    elif columns is not None:
        needed = key | set(columns)
    elif info.folds:
        needed = key | set(have)
    else:
        needed = set(info.schema.names) - info.added_columns.difference(have)
    for name in info.schema.names:
        if name in needed and name not in have:
            partial = name not in key and _takes_columns(info, operation)
            hint = "; or pass columns=[...] to write only some" if partial else ""
            raise SchemaMismatchError(f"a column is missing from the data; add it{hint}", column=name, table=info.path)
    for name in needed:
        if sum(_find(info, other) == name for other in offered) > 1:
            raise SchemaMismatchError(
                "two columns of the data have this name (case does not tell them apart); drop or rename one",
                column=name,
            )
    sent = [(have[name], name) for name in info.schema.names if name in needed]
    if operation is Operation.APPLY:
        if CHANGE_TYPE not in offered:
            raise SchemaMismatchError(
                "rows to apply need a column that says what each does: +I, -U, +U or -D", column=CHANGE_TYPE
            )
        sent.append((CHANGE_TYPE, CHANGE_TYPE))
    return tuple(sent)


def _check_types(info: TableInfo, data: StructType, sent: tuple[tuple[str, str], ...]) -> None:
    for source, name in sent:
        if name == CHANGE_TYPE:
            continue
        found, wanted = arrow_field(data[source]).type, info.schema.column(name).type
        # Spark reads a time without zone in the session's, we would in UTC: the user says which is meant.
        zoned = arrow.is_timestamp(found) and arrow.is_timestamp(wanted) and found.tz is None and wanted.tz is not None
        if zoned or not castable(found, wanted):
            raise SchemaMismatchError(
                "the data has a type that the column cannot take without loss; cast it first",
                column=name,
                type=str(found),
                wanted=str(wanted),
            )
