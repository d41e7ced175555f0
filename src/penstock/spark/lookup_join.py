"""Joining rows with a table by its key, at the moment each batch passes: it sees the present, not a cut."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from penstock.client.lookups import FOUND, Lookups
from penstock.client.scan_request import project
from penstock.errors import InvalidError, UnsupportedError
from penstock.model.table import TableInfo
from penstock.spark.links import link_for, planning_link
from penstock.spark.options import Options
from penstock.spark.spark_types import arrow_schema, spark_schema
from penstock.spark.worker_python import check_worker_python

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
        UnsupportedError: the table has no primary key.
    """
    if how not in HOW:
        raise InvalidError(f"how is one of {', '.join(HOW)}", how=how)
    check_worker_python(df.sparkSession)
    checked = Options({"url": url, "table": table} | options)
    checked = Options(checked.for_spark() | {"url": checked.url})
    link = planning_link(checked)
    info = link.retry.run(lambda: link.node.table(table))
    keys = _key_columns(info, on)
    missing = [name for name in keys if name not in df.columns]
    if missing:
        raise InvalidError(
            "the key's columns are not in the data; name them by on=", missing=missing, key=info.primary_key
        )
    chosen = project(columns, info.schema) or tuple(n for n in info.schema.names if n not in info.primary_key)
    clash = [name for name in chosen if name in df.columns]
    if clash:
        raise InvalidError(
            "the data has columns of these names; rename them, or choose others by columns=", columns=clash
        )
    full = info.schema.arrow_schema
    added = spark_schema(pa.schema([full.field(name).with_nullable(True) for name in chosen]))
    fields: list[StructField] = [*df.schema.fields, *added.fields]
    return df.mapInArrow(_join(checked, info, keys, added, inner=how == "inner"), StructType(fields))


def _key_columns(info: TableInfo, on: str | Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
    """Return {column of the data: key column}, for every key column."""
    if not info.keyed:
        raise UnsupportedError("a lookup join needs a table with a primary key", table=info.path)
    if isinstance(on, Mapping):
        found = dict(on)
    else:
        names = info.primary_key if on is None else (on,) if isinstance(on, str) else tuple(on)
        if len(names) != len(info.primary_key):
            raise InvalidError("name a column for each column of the key", on=list(names), key=list(info.primary_key))
        found = dict(zip(names, info.primary_key, strict=True))
    if sorted(found.values()) != sorted(info.primary_key):
        raise InvalidError("name a column for each column of the key", on=found, key=list(info.primary_key))
    return found


def _join(options: Options, info: TableInfo, keys: Mapping[str, str], added: StructType, *, inner: bool) -> Join:
    target = arrow_schema(added)

    def join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lookups = Lookups(link_for(options), info)
        for batch in batches:
            wanted = pa.RecordBatch.from_arrays([batch.column(name) for name in keys], names=list(keys.values()))
            found = _looked_up(lookups, wanted, target)
            joined = pa.RecordBatch.from_arrays(
                [*batch.columns, *(found.column(field.name) for field in target)],
                schema=pa.schema([*batch.schema, *target]),
            )
            yield joined.filter(found.column(FOUND)) if inner else joined

    return join


def _looked_up(lookups: Lookups, keys: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Return for each key its row's columns and whether there is one; a key with a null has none."""
    whole = functools.reduce(pc.and_, (column.is_valid() for column in keys.columns))
    rows = lookups.lookup(keys.filter(whole), target.names).combine_chunks()
    places = pc.if_else(whole, pc.subtract(pc.cumulative_sum(whole.cast(pa.int64())), 1), None)
    columns = [rows.column(field.name).cast(field.type).take(places) for field in target]
    found = pc.fill_null(rows.column(FOUND).take(places), False)
    arrays = [column.combine_chunks() for column in (*columns, found)]
    return pa.RecordBatch.from_arrays(arrays, names=[*target.names, FOUND])
