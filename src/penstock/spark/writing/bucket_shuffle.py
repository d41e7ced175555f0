"""Rows to the tasks that write their buckets: one task for each, in the order that the user names.

The server would route rows from anywhere. But one bucket in one task is what makes attempts cheap to
undo, and what keeps the rows of a key in an order at all: a shuffle alone mixes them.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.errors import InvalidError, SchemaMismatchError, UnsupportedError
from penstock.model.node.calls import Operation
from penstock.model.place.change import OFFSET, ChangeType
from penstock.model.place.system_columns import CHANGE_TYPE
from penstock.model.table.table import TableInfo
from penstock.spark.session.column_name import find_name, quoted
from penstock.spark.session.links import planning_link
from penstock.spark.session.option_use import check_use
from penstock.spark.session.options import Options
from penstock.spark.session.query_id import local_context
from penstock.spark.session.spark_types import spark_type
from penstock.spark.writing.write_plan import WritePlan, order_word


def to_buckets(df: DataFrame, url: str | None, table: str, **options: Any) -> DataFrame:
    """Return the rows with those of the table's bucket i in partition i: joins and folds by key need no shuffle more.

    Raises:
        SchemaMismatchError: a column of the bucket key is missing.
        TableNotFoundError: there is no such table.
        UnsupportedError: the table has no primary key, so its rows have no bucket of their own.
    """
    checked = check_use(Options({"url": url, "table": table} | options))
    link = planning_link(checked)
    info = link.retry.run(lambda: link.node.catalog.table(checked.table))
    if not info.keyed:
        raise UnsupportedError("rows of a log table belong to no bucket; use repartition", table=info.path)
    sources = []
    for name in info.bucket_key:
        source = find_name(name, df.columns)
        if source is None:
            raise SchemaMismatchError("a column of the bucket key is missing from the data; add it", column=name)
        sources.append(source)
    return route(df, info, sources)


def route(df: DataFrame, info: TableInfo, sources: list[str]) -> DataFrame:
    """Return the rows with bucket i in partition i; `sources` are the data's names of the bucket key.

    Spark hashes by type, so the key is hashed in the table's types; a value that does not fit becomes null
    for the hash alone, and is refused when it is written.
    """
    types = [spark_type(info.schema.column(name).type) for name in info.bucket_key]
    key = [df[quoted(source)].try_cast(kind) for source, kind in zip(sources, types, strict=True)]
    bucket = sf.pmod(sf.xxhash64(*key), sf.lit(info.buckets)).cast("int")
    return df.repartitionById(info.buckets, bucket)


def place(df: DataFrame, plan: WritePlan) -> DataFrame:
    """Return a job's rows where and in the order in which they are written.

    Raises:
        InvalidError: changes are to be applied, and nothing says in which order they were made.
        UnsupportedError: the table has no primary key.
    """
    order = order_of(df, plan.options, plan.operation)
    if not plan.info.keyed:
        raise UnsupportedError("rows of a log table have no key to be ordered by; leave order_by out")
    sources = plan.sources(plan.info.bucket_key)
    routed = df if _is_in_one_task(df) else route(df, plan.info, sources)
    return routed.sortWithinPartitions(*order) if order else routed


def _is_in_one_task(df: DataFrame) -> bool:
    """Tell whether one task has all rows, where Spark knows without running anything: a shuffle would part them.

    That is a micro-batch as Spark hands it to a sink: rows whose plan has been made already.
    """
    if local_context(df.sparkSession) is None:
        return False
    plan = df._jdf.queryExecution().analyzed()
    return bool(plan.getClass().getSimpleName() == "LogicalRDD" and plan.rdd().getNumPartitions() == 1)


def order_of(df: DataFrame, options: Options, operation: Operation) -> list[Column]:
    """Return by what the rows of a bucket are sorted; empty if nothing says.

    Raises:
        InvalidError: a column is unknown, or changes have no order.
    """
    words = options.names("order_by")
    if words is None and operation is Operation.APPLY:
        if OFFSET not in df.columns:
            raise InvalidError(
                "changes are applied in the order in which they were made: keep the column _offset, or pass order_by"
            )
        words = (OFFSET,)
    order = [_sort_key(df, word) for word in words or ()]
    if operation is Operation.APPLY:
        # Rows of a snapshot have the offset of the first change after it, and come before it.
        kind = sf.col(CHANGE_TYPE)
        back = kind.isin(ChangeType.UPDATE_BEFORE.value, ChangeType.DELETE.value)
        order.append(sf.when(kind == ChangeType.UPDATE_AFTER.value, 2).when(back, 1).otherwise(0).asc())
    return order


def _sort_key(df: DataFrame, word: str) -> Column:
    name, direction = order_word(word, df.columns)
    found = find_name(name, df.columns)
    if found is None:
        raise InvalidError(
            "order_by names columns of the data, each with desc behind it or not", order_by=word, columns=df.columns
        )
    column = sf.col(quoted(found))
    return column.desc() if direction == "desc" else column.asc()
