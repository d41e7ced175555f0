"""Joining rows with a table by its key, at the moment each batch passes: it sees the present, not a cut."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from penstock.client.catalog.known_table import KnownTable
from penstock.client.ingest.cast import castable
from penstock.client.lookup.lookups import Lookups
from penstock.client.scan.request import project
from penstock.errors import InvalidError, SchemaMismatchError, UnsupportedError
from penstock.model.place.system_columns import FOUND
from penstock.model.table.table import TableInfo
from penstock.model.words.names import name_list
from penstock.spark.session.column_name import find_name, mappable
from penstock.spark.session.links import link_for, planning_link
from penstock.spark.session.option_use import check_use
from penstock.spark.session.options import Options
from penstock.spark.session.spark_types import arrow_field, arrow_schema, cast_column, spark_schema
from penstock.spark.session.worker_python import check_worker_python

HOW: Final = ("left", "inner")
Join = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def lookup_join(
    df: DataFrame,
    url: str | None,
    table: str,
    *,
    on: str | Sequence[str] | Mapping[str, str] | None = None,
    columns: Iterable[str] | None = None,
    how: str = "left",
    **options: Any,
) -> DataFrame:
    """Return the rows of `df`, each with the columns of the table's row of the same key.

    `on` names the columns of `df` that hold the key: in the key's order, or as {column of df: key column};
    by default those of the key's names. A row without a match has nulls, or with `how="inner"` is left out.

    Raises:
        InvalidError: a column is missing or ambiguous, `how` is unknown, or Spark's workers lack penstock.
        SchemaMismatchError: a column has a type that the key cannot take.
        UnsupportedError: the table has no primary key.
    """
    if how not in HOW:
        raise InvalidError(f"how is one of {', '.join(HOW)}", how=how)
    check_worker_python(df.sparkSession)
    checked = check_use(Options({"url": url, "table": table} | options))
    checked = Options(checked.for_spark() | {"url": checked.url})
    link = planning_link(checked)
    checked = checked.pinned(link.database)
    info = link.retry.run(lambda: link.node.catalog.table(table))
    keys = _key_places(info, _key_columns(info, on), df.schema)
    named = None if columns is None else project(name_list(columns), info.schema)
    chosen = named or tuple(n for n in info.schema.names if n not in info.primary_key)
    clash = [name for name in chosen if find_name(name, df.columns) is not None]
    if clash:
        raise InvalidError(
            "the data has columns of these names; rename them, or choose others by columns=", columns=clash
        )
    full = info.schema.arrow_schema
    added = spark_schema(pa.schema([full.field(name).with_nullable(True) for name in chosen]))
    fields: list[StructField] = [*df.schema.fields, *added.fields]
    join = _join(checked, info, keys, df.columns, added, inner=how == "inner")
    return mappable(df).mapInArrow(join, StructType(fields))


def _key_columns(info: TableInfo, on: str | Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
    """Return {column of the data: key column}, for every key column."""
    if not info.keyed:
        raise UnsupportedError("a lookup join needs a table with a primary key", table=info.path)
    if isinstance(on, Mapping):
        found = {name: find_name(known, info.primary_key) or known for name, known in on.items()}
    else:
        names = info.primary_key if on is None else (on,) if isinstance(on, str) else tuple(on)
        if len(names) != len(info.primary_key):
            raise InvalidError("name a column for each column of the key", on=list(names), key=list(info.primary_key))
        found = dict(zip(names, info.primary_key, strict=True))
    if sorted(found.values()) != sorted(info.primary_key):
        raise InvalidError("name a column for each column of the key", on=found, key=list(info.primary_key))
    return found


def _key_places(info: TableInfo, keys: Mapping[str, str], data: StructType) -> dict[str, int]:
    """Return {key column: place in the data}, if the data has these columns and they can be keys."""
    found = {known: find_name(name, data.names) for name, known in keys.items()}
    missing = [name for name, known in keys.items() if found[known] is None]
    if missing:
        raise InvalidError(
            "the key's columns are not in the data; name them by on=", missing=missing, key=info.primary_key
        )
    places = {known: data.names.index(name) for known, name in found.items() if name is not None}
    for known, place in places.items():
        held, wanted = arrow_field(data[place]).type, info.schema.column(known).type
        if not castable(held, wanted):
            raise SchemaMismatchError(
                "the data has a type that the key cannot take; cast it first",
                column=data.names[place],
                type=str(held),
                wanted=str(wanted),
            )
    return places


def _join(
    options: Options, info: TableInfo, keys: Mapping[str, int], names: list[str], added: StructType, *, inner: bool
) -> Join:
    target = list(arrow_schema(added))

    def join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lookups = Lookups(link_for(options), KnownTable(link_for(options), info, fixed=True))
        for batch in batches:
            wanted = pa.RecordBatch.from_arrays([batch.column(place) for place in keys.values()], names=list(keys))
            columns, found = _looked_up(lookups, wanted, target)
            theirs = [field.with_name(name) for field, name in zip(batch.schema, names, strict=True)]
            joined = pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=pa.schema([*theirs, *target]))
            yield joined.filter(found) if inner else joined

    return join


def _looked_up(lookups: Lookups, keys: pa.RecordBatch, added: list[pa.Field]) -> tuple[list[pa.Array], pa.Array]:
    """Return for each key its row's columns and whether there is one; a key with a null has none."""
    whole = functools.reduce(pc.and_, (column.is_valid() for column in keys.columns))
    # A lookup returns at least one column: the key itself, of a table that has no others.
    names = [field.name for field in added] or keys.schema.names[:1]
    rows = lookups.lookup(keys.filter(whole), names).combine_chunks()
    places = pc.if_else(whole, pc.subtract(pc.cumulative_sum(whole.cast(pa.int64())), 1), None)

    def placed(name: str) -> pa.Array:
        return rows.column(name).take(places).combine_chunks()

    return [cast_column(placed(field.name), field.type) for field in added], pc.fill_null(placed(FOUND), False)
