"""A table with the columns of a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from penstock.model.schema.aggregate import AggFunction
from penstock.model.schema.schema import Schema
from penstock.model.table.merge_engine import MergeEngineLike
from penstock.model.table.spec import make_spec
from penstock.model.table.table import TableInfo
from penstock.spark.session.links import planning_link
from penstock.spark.session.option_use import check_use
from penstock.spark.session.options import Options
from penstock.spark.session.spark_types import arrow_field


def create_table(
    data: DataFrame | StructType | Schema | pa.Schema | str,
    url: str | None,
    table: str,
    *,
    primary_key: Sequence[str] | str | None = None,
    agg: Mapping[str, AggFunction | str] | None = None,
    merge_engine: MergeEngineLike | None = None,
    version_column: str | None = None,
    buckets: int = 1,
    bucket_key: Sequence[str] | str | None = None,
    partitioned_by: Sequence[str] | str | None = None,
    properties: Mapping[str, Any] | None = None,
    if_not_exists: bool = False,
    **options: Any,
) -> TableInfo:
    """Create a table with the columns of a DataFrame or a Spark schema; its database too, if it is not there.

    Raises:
        AlreadyExistsError: there is a table of that name.
        InvalidError: a column has a type without a place, or something else is not allowed; the message says what is.
    """
    spec = make_spec(
        _columns(data),
        primary_key=primary_key,
        aggregates=agg,
        merge_engine=merge_engine,
        version_column=version_column,
        buckets=buckets,
        bucket_key=bucket_key,
        partitioned_by=partitioned_by,
        properties=properties,
    )
    checked = check_use(Options({"url": url, "table": table} | options))
    link = planning_link(checked)
    database = checked.table.partition(".")[0]
    link.retry.run(lambda: link.node.catalog.create_database(database, if_not_exists=True))
    return link.once(lambda node: node.catalog.create_table(checked.table, spec, if_not_exists=if_not_exists))


def _columns(data: DataFrame | StructType | Schema | pa.Schema | str) -> Schema | pa.Schema | str:
    if isinstance(data, Schema | pa.Schema | str):
        return data
    schema = data if isinstance(data, StructType) else data.schema
    return pa.schema([arrow_field(field) for field in schema.fields])
