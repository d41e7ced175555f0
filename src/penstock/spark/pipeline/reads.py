"""Tables as DataFrames: the live rows, the changes of a while, the changes to come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.client.cut.cut import Cut, is_cut_json
from penstock.client.cut.cut_pin import CutPin
from penstock.client.scan.request import ScanSource, ScanSourceLike
from penstock.errors import InvalidError
from penstock.model.node.calls import ImagesLike
from penstock.model.place.bucket import TableBucket
from penstock.model.place.cut_text import write_cut
from penstock.model.words.names import name_list
from penstock.spark.reading.mapped_read import read_mapped
from penstock.spark.session.links import planning_link
from penstock.spark.session.option_use import check_use
from penstock.spark.session.options import Options
from penstock.spark.session.query_id import local_context
from penstock.spark.sources.read_options import check_read_options
from penstock.spark.sources.registration import ensure_registered, with_format
from penstock.spark.sources.source import PenstockDataSource


def read(
    spark: SparkSession,
    url: str | None,
    table: str,
    *,
    columns: Iterable[str] | None = None,
    filter: str | None = None,
    as_of: str | Mapping[TableBucket, int] | None = None,
    source: ScanSourceLike = "live",
    **options: Any,
) -> DataFrame:
    """Return a table as a DataFrame: every execution reads one consistent cut, the present one or `as_of`.

    Raises:
        InvalidError: an option, a column or the filter is not understood.
        TableNotFoundError: there is no such table.
        UnavailableError: no server answers.
    """
    given = {
        "columns": None if columns is None else name_list(columns),
        "filter": filter,
        "as_of": _cut_text(as_of, url, table, options),
        "source": source,
    }
    return _frame(spark, url, table, given | options)


def changes(
    spark: SparkSession,
    url: str | None,
    table: str,
    *,
    start: str | Mapping[TableBucket, int] | None = None,
    end: str | Mapping[TableBucket, int] | None = None,
    images: ImagesLike = "full",
    columns: Iterable[str] | None = None,
    **options: Any,
) -> DataFrame:
    """Return the changes of a table from `start` up to `end`, or up to the present.

    `start` and `end` are cuts, as `cut` returns them; `start` may also be "earliest" or a timestamp.

    Raises:
        InvalidError: an option is not understood.
    """
    given = {
        "start": _cut_text(start, url, table, options),
        "end": _cut_text(end, url, table, options),
        "images": images,
        "columns": None if columns is None else name_list(columns),
        "source": ScanSource.LOG.value,
    }
    return _frame(spark, url, table, given | options)


def read_stream(
    spark: SparkSession,
    url: str | None,
    table: str,
    *,
    starting: str | Mapping[TableBucket, int] = "snapshot",
    max_rows_per_trigger: int | None = None,
    max_bytes_per_trigger: int | str | None = None,
    images: ImagesLike = "full",
    fail_on_data_loss: bool = True,
    retain: str | None = None,
    columns: Iterable[str] | None = None,
    **options: Any,
) -> DataFrame:
    """Return the changes of a table as a streaming DataFrame: by default its rows first, then what happens to them.

    `starting` is "snapshot", "earliest", "latest", a cut as `cut` returns it, or a timestamp; a query
    that has a checkpoint goes on there.

    Raises:
        InvalidError: an option is not understood.
    """
    given = {
        "starting": _cut_text(starting, url, table, options),
        "max_rows_per_trigger": max_rows_per_trigger,
        "max_bytes_per_trigger": max_bytes_per_trigger,
        "images": images,
        "fail_on_data_loss": fail_on_data_loss,
        "retain": retain,
        "columns": None if columns is None else name_list(columns),
        "source": ScanSource.LOG.value,
    }
    asked = _asked(spark, url, table, given | options, "stream")
    return with_format(spark, lambda: spark.readStream.format(PenstockDataSource.name()).options(**asked).load())


def cut(url: str | None, table: str, **options: Any) -> str:
    """Return the present cut of a table as JSON: for `as_of`, `start`, `end` and `starting`.

    Raises:
        TableNotFoundError: there is no such table.
        UnavailableError: no server answers.
    """
    link = planning_link(Options({"url": url, "table": table} | options))
    info = link.retry.run(lambda: link.node.catalog.table(table))
    pin = CutPin.take(link, info.table_id)
    pin.release()
    return write_cut(link.database, info.table_id, pin.offsets)


def relation(spark: SparkSession, url: str | None, table: str, **options: Any) -> DataFrame:
    """Return a table as a relation of Spark's: the same rows as `read` gives, not as fast, but SQL can insert into it.

    Raises:
        InvalidError: an option is not understood.
        TableNotFoundError: there is no such table.
    """
    return _relation(spark, _asked(spark, url, table, options, "read"))


def _frame(spark: SparkSession, url: str | None, table: str, given: Mapping[str, Any]) -> DataFrame:
    asked = _asked(spark, url, table, given, "read", "changes")
    if local_context(spark) is None:
        return _relation(spark, asked)
    return read_mapped(spark, PenstockDataSource(asked), name=f"penstock {table}")


def _relation(spark: SparkSession, asked: Mapping[str, str]) -> DataFrame:
    return with_format(spark, lambda: spark.read.format(PenstockDataSource.name()).options(**asked).load())


def _asked(spark: SparkSession, url: str | None, table: str, given: Mapping[str, Any], *uses: str) -> dict[str, str]:
    """Return the options as Spark takes them, after finding out that the server can answer them.

    Spark would find out too, and say it at the end of a trace of its own. Through Connect only Spark can:
    the machine of the program need not reach the server that Spark reaches.
    """
    options = check_use(Options({"url": url, "table": table} | dict(given)), *uses)
    ensure_registered(spark)
    if local_context(spark) is not None:
        link = planning_link(options)
        info = link.retry.run(lambda: link.node.catalog.table(options.table))
        check_read_options(options, link, info)
    return options.for_spark() | {"url": options.url}


def _cut_text(
    given: str | Mapping[TableBucket, int] | None, url: str | None, table: str, options: Mapping[str, Any]
) -> str | None:
    """Return a cut as text; one as `table.cut()` returns it, or offsets by bucket, are written as `cut` does."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Cut):
        return given.to_json()
    if is_cut_json(given):
        return json.dumps(given)
    if not isinstance(given, Mapping):
        raise InvalidError("a cut is what pks.cut or cut() of a table returns; pass it unchanged", found=repr(given))
    link = planning_link(Options({"url": url, "table": table} | dict(options)))
    info = link.retry.run(lambda: link.node.catalog.table(table))
    return write_cut(link.database, info.table_id, given)
