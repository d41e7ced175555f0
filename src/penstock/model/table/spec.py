"""How a table is asked for: everything `create_table` takes, checked and put in one form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as arrow

from penstock.errors import InvalidError
from penstock.model.schema.aggregate import CHOICES, DELIMITER, AggFunction
from penstock.model.schema.ddl import parse_ddl
from penstock.model.schema.schema import Schema, checked, make_column
from penstock.model.schema.types import check_partition_type
from penstock.model.table.merge_engine import DeleteBehavior, MergeEngine
from penstock.model.table.properties import DELETE_AT_ZERO, check_values
from penstock.model.table.table import TableSpec
from penstock.model.words.names import check_text

BUCKETS_MAX: Final = 1024


def make_spec(
    schema: Schema | str | pa.Schema,
    *,
    primary_key: Sequence[str] | str | None = None,
    aggregates: Mapping[str, AggFunction | str] | None = None,
    buckets: int = 1,
    bucket_key: Sequence[str] | str | None = None,
    partitioned_by: Sequence[str] | str | None = None,
    merge_engine: MergeEngine | str | None = None,
    version_column: str | None = None,
    properties: Mapping[str, Any] | None = None,
) -> TableSpec:
    """Return what makes a table, from a schema, DDL or an Arrow schema, and options.

    Raises:
        InvalidError: something is not allowed, or does not go together; the message says what to do.
    """
    if not isinstance(aggregates, Mapping | None):
        raise InvalidError('aggregates is a dict: {"revenue": "sum"}', found=type(aggregates).__name__)
    if version_column is not None:
        check_text(version_column, "version_column")
    partitions = _names(partitioned_by, "partitioned_by")
    full = _complete(_read_schema(schema), _names(primary_key, "primary_key"), aggregates or {}, partitions)
    spec = TableSpec(
        schema=full,
        buckets=_check_buckets(buckets),
        bucket_key=_choose_bucket_key(full, _names(bucket_key, "bucket_key"), partitions),
        partitioned_by=partitions,
        merge_engine=_choose_engine(full, merge_engine, version_column),
        version_column=version_column,
        properties=check_values(properties),
    )
    _check_partitions(spec)
    _check_version_column(spec)
    _check_aggregates(spec)
    check_properties(spec)
    return spec


def spec_from_json(stored: Mapping[str, Any]) -> TableSpec:
    """Return the spec that JSON values from outside describe, checked in full.

    Raises:
        InvalidError: something is not allowed, or the values are no spec.
    """
    try:
        schema = Schema.from_json(stored["schema"])
        return make_spec(schema, **{name: stored[name] for name in _OPTION_NAMES})
    except (KeyError, TypeError, AttributeError) as cause:
        raise InvalidError("this is no description of a table") from cause


_OPTION_NAMES: Final = ("buckets", "bucket_key", "partitioned_by", "merge_engine", "version_column", "properties")


def check_properties(spec: TableSpec) -> None:
    """Refuse properties that do not go with the table.

    Raises:
        InvalidError: the message says which and why.
    """
    given = spec.properties.get("delete.behavior")
    behavior = None if given is None else spec.options.delete_behavior
    if behavior is not None and spec.merge_engine is None:
        raise InvalidError("a table without a primary key has no deletes", property="delete.behavior")
    if behavior == DeleteBehavior.ALLOW and spec.merge_engine is not None and not spec.merge_engine.traits.can_delete:
        raise InvalidError(
            f"a {spec.merge_engine} table cannot allow deletes; use ignore or disable", property="delete.behavior"
        )
    if spec.options.row_ttl_ms is not None and not spec.keyed:
        raise InvalidError(
            "the rows of a log table go with its log; use log.retention, or partition.retention", property="row.ttl"
        )
    for name in spec.properties:
        if name.startswith("aggregate.") and not spec.folds:
            raise InvalidError("only an aggregate table has this property", property=name)
    counter = spec.options.aggregate_delete_at_zero
    if counter is not None and spec.schema.column(counter).agg is not AggFunction.COUNT:
        raise InvalidError("the column is not a count; name one", property=DELETE_AT_ZERO, column=counter)


def _read_schema(schema: Schema | str | pa.Schema) -> Schema:
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, str):
        return parse_ddl(schema)
    if isinstance(schema, pa.Schema):
        return Schema.from_arrow(schema)
    raise InvalidError("a schema is a penstock.Schema, DDL or an Arrow schema", schema=type(schema).__name__)


def _names(given: Sequence[str] | str | None, what: str) -> tuple[str, ...]:
    if not isinstance(given, str | Iterable | None):
        raise InvalidError(f"{what} takes a list of column names", found=type(given).__name__)
    names = (given,) if isinstance(given, str) else () if given is None else tuple(given)
    for name in names:
        check_text(name, f"a column of {what}")
    if len(set(names)) < len(names):
        raise InvalidError("a column is named twice", **{what: list(names)})
    return names


def _complete(
    schema: Schema, primary_key: tuple[str, ...], aggregates: Mapping[str, AggFunction | str], partitions: Sequence[str]
) -> Schema:
    """Return the schema with key and functions in it, its columns checked and numbered afresh."""
    if primary_key and schema.primary_key and primary_key != schema.primary_key:
        raise InvalidError("the schema has another primary key", primary_key=list(schema.primary_key))
    key = primary_key or schema.primary_key
    for name in (*key, *aggregates, *partitions):
        schema.column(name)
    required = {*key, *partitions}
    columns = []
    for position, column in enumerate(schema.columns):
        function = aggregates.get(column.name, column.agg)
        columns.append(
            make_column(
                position,
                column.name,
                column.type,
                nullable=column.nullable and column.name not in required,
                agg=function,
                delimiter=column.agg_params.get(DELIMITER) if function == column.agg else None,
            )
        )
    return checked(Schema(tuple(columns), key))


def _check_buckets(buckets: int) -> int:
    if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= BUCKETS_MAX:
        raise InvalidError(f"a table has 1 to {BUCKETS_MAX} buckets", buckets=repr(buckets))
    return buckets


def _choose_bucket_key(schema: Schema, given: tuple[str, ...], partitions: tuple[str, ...]) -> tuple[str, ...]:
    if not schema.keyed:
        if given:
            raise InvalidError("rows without a primary key go to buckets in turn; leave bucket_key out")
        return ()
    for name in given:
        if name not in schema.primary_key:
            schema.column(name)
            raise InvalidError("the bucket key is part of the primary key", column=name, primary_key=schema.primary_key)
    chosen = given or tuple(name for name in schema.primary_key if name not in partitions)
    if not chosen:
        raise InvalidError(
            "the primary key has no column besides the partition columns; partition by fewer", partitioned_by=partitions
        )
    return chosen


def _choose_engine(schema: Schema, given: MergeEngine | str | None, version_column: str | None) -> MergeEngine | None:
    folds = any(column.agg is not None for column in schema.columns)
    if not schema.keyed:
        if given is not None or folds or version_column is not None:
            raise InvalidError("merge engines need a primary key; name one", merge_engine=given)
        return None
    if given is not None:
        engine = MergeEngine.parse(given)
    elif folds:
        engine = MergeEngine.AGGREGATE
    else:
        engine = MergeEngine.LAST_ROW if version_column is None else MergeEngine.VERSIONED
    if folds and not engine.traits.folds:
        raise InvalidError("only merge_engine=aggregate folds columns; drop the functions", merge_engine=engine)
    return engine


def _check_partitions(spec: TableSpec) -> None:
    for name in spec.partitioned_by:
        column = spec.schema.column(name)
        if spec.keyed and name not in spec.primary_key:
            raise InvalidError("a partition column is part of the primary key; add it there", column=name)
        if column.agg is not None:
            raise InvalidError("a partition column has no aggregate function", column=name)
        check_partition_type(column.type, name)


def _check_version_column(spec: TableSpec) -> None:
    versioned = spec.merge_engine is not None and spec.merge_engine.traits.has_version
    if versioned != (spec.version_column is not None):
        raise InvalidError(
            "merge_engine=versioned and version_column go together",
            merge_engine=spec.merge_engine,
            version_column=spec.version_column,
        )
    if spec.version_column is None:
        return
    column = spec.schema.column(spec.version_column)
    if column.name in spec.primary_key:
        raise InvalidError("the version column is not part of the primary key", column=column.name)
    type_ = column.type
    if not (arrow.is_integer(type_) or arrow.is_decimal(type_) or arrow.is_timestamp(type_) or arrow.is_date(type_)):
        raise InvalidError("a version is an integer, decimal, date or timestamp", column=column.name, type=str(type_))


def _check_aggregates(spec: TableSpec) -> None:
    if not spec.folds:
        return
    without = [column.name for column in spec.schema.value_columns if column.agg is None]
    if without:
        raise InvalidError(
            f"every column outside the key of an aggregate table has a function; choose one of {CHOICES}",
            columns=", ".join(without),
        )
