"""Fold rows by key on Spark's side, so that one row of each key travels: write them with agg_mode="merge_state"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyarrow import types as arrow
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from penstock.errors import UnsupportedError
from penstock.model.schema.aggregate import AggFunction
from penstock.model.schema.schema import Column
from penstock.spark.session.column_name import find_name, quoted
from penstock.spark.session.links import planning_link
from penstock.spark.session.option_use import check_use
from penstock.spark.session.options import Options
from penstock.spark.session.spark_types import spark_type
from penstock.spark.writing.write_plan import plan_write

# Only what folds the same in any order: a shuffle keeps none.
_FOLDS: Final[dict[AggFunction, Callable[[SparkColumn], SparkColumn]]] = {
    AggFunction.SUM: sf.sum,
    AggFunction.MIN: sf.min,
    AggFunction.MAX: sf.max,
    AggFunction.COUNT: sf.count,
    AggFunction.BOOL_AND: sf.bool_and,
    AggFunction.BOOL_OR: sf.bool_or,
}


def pre_aggregate(df: DataFrame, url: str | None, table: str, **options: Any) -> DataFrame:
    """Return one row for each key of an aggregating table, folded as the table would; for agg_mode="merge_state".

    Values and sums that do not fit the column's type fail the job, as they would on the server.

    Raises:
        UnsupportedError: the table is no aggregating one, or a column's function depends on an order or has
            no like in Spark; select the other columns, or write without folding first.
        SchemaMismatchError: the data does not fit the table.
    """
    checked = check_use(Options({"url": url, "table": table} | options), "write")
    plan = plan_write(checked, planning_link(checked), df.schema)
    if not plan.info.folds:
        raise UnsupportedError("only aggregating tables fold rows; write them as they are", table=plan.info.path)
    source = {name: quoted(name_in_data) for name_in_data, name in plan.sent}
    key = [sf.col(source[name]).alias(name) for name in plan.info.primary_key]
    folded = [_fold(column, df.schema, source) for column in plan.info.schema.value_columns if column.name in source]
    return df.groupBy(*key).agg(*folded) if folded else df.select(*key).distinct()


def _fold(column: Column, schema: StructType, source: dict[str, str]) -> SparkColumn:
    function = _FOLDS.get(column.agg) if column.agg is not None else None
    if function is None:
        raise UnsupportedError(
            f"Spark cannot fold this column without an order; it can {', '.join(sorted(_FOLDS))}",
            column=column.name,
            function=str(column.agg),
        )
    value = _fitting(sf.col(source[column.name]), schema[find_name(column.name, schema.names) or column.name], column)
    if column.agg is AggFunction.SUM and not arrow.is_floating(column.type):
        return _exact_sum(value, column).alias(column.name)
    return function(value).cast(spark_type(column.type)).alias(column.name)


def _fitting(value: SparkColumn, field: StructField, column: Column) -> SparkColumn:
    """Return the values in the column's type, failing where one would be lost: Spark's own cast rounds and cuts."""
    kept = spark_type(column.type)
    if field.dataType == kept:
        return value
    made = value.try_cast(kept)
    lost = value.isNotNull() & ~made.try_cast(field.dataType).eqNullSafe(value)
    return sf.when(lost, _failing("a value does not fit its column", column)).otherwise(made)


def _exact_sum(value: SparkColumn, column: Column) -> SparkColumn:
    """Return a sum that fails where it does not fit; Spark's own may become null or wrap, by its settings."""
    wide = value if arrow.is_decimal(column.type) else value.cast("decimal(20, 0)")
    total = sf.sum(wide).try_cast(spark_type(column.type))
    lost = (sf.count(value) > 0) & total.isNull()
    return sf.when(lost, _failing("the sum does not fit its column", column)).otherwise(total)


def _failing(message: str, column: Column) -> SparkColumn:
    return sf.raise_error(sf.lit(f"{message} column={column.name}"))
