"""Types both ways: a table's columns as Spark's, and batches exactly as Spark wants them.

Spark takes a batch only if its Arrow schema is the very one that Spark derives from its own: names of
list and map children, UTC timestamps, nullability. So every batch is cast, which costs nothing where it
is right already.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as arrow
from pyspark.errors import PySparkTypeError
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.client.ingest.nested_cast import cast_nested
from penstock.errors import InvalidError, SchemaMismatchError
from penstock.model.schema.inner_nulls import forbids_inner_nulls

_PLAIN: dict[str, type[spark.DataType]] = {
    "bool": spark.BooleanType,
    "int8": spark.ByteType,
    "int16": spark.ShortType,
    "int32": spark.IntegerType,
    "int64": spark.LongType,
    "float": spark.FloatType,
    "double": spark.DoubleType,
    "string": spark.StringType,
    "large_string": spark.StringType,
    "binary": spark.BinaryType,
    "large_binary": spark.BinaryType,
    "date32[day]": spark.DateType,
}


def spark_type(type_: pa.DataType) -> spark.DataType:
    """Return what Spark calls a column's type.

    Raises:
        InvalidError: Spark has no such type.
    """
    plain = _PLAIN.get(str(type_))
    if plain is not None:
        return plain()
    if arrow.is_decimal128(type_):
        return spark.DecimalType(type_.precision, type_.scale)
    if arrow.is_timestamp(type_):
        return spark.TimestampNTZType() if type_.tz is None else spark.TimestampType()
    if arrow.is_list(type_) or arrow.is_large_list(type_):
        return spark.ArrayType(spark_type(type_.value_type), type_.value_field.nullable)
    if arrow.is_map(type_):
        return spark.MapType(spark_type(type_.key_type), spark_type(type_.item_type), type_.item_field.nullable)
    if arrow.is_struct(type_):
        return spark.StructType([_field(type_.field(place)) for place in range(type_.num_fields)])
    raise InvalidError("Spark has no such type", type=str(type_))


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """Return what Spark calls a table's columns."""
    return spark.StructType([_field(field) for field in schema])


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the Arrow schema that Spark wants for its own."""
    made: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return made


def arrow_field(field: spark.StructField) -> pa.Field:
    """Return a column of a user's rows as a table may have it.

    Raises:
        InvalidError: the type is one of Spark's own that no table can have.
    """
    try:
        if _has_variant(field.dataType):
            raise PySparkTypeError("a variant's batches are structs that no other program reads")
        return arrow_schema(spark.StructType([field])).field(0)
    except PySparkTypeError as error:
        raise InvalidError(
            "no table can have this type of Spark's own; cast it to string or binary, or take it apart",
            column=field.name,
            type=field.dataType.simpleString(),
        ) from error


def check_fits(wanted: spark.StructType, offered: pa.Schema) -> None:
    """Refuse a schema that a user gave, unless its columns are some of those there are.

    Raises:
        SchemaMismatchError: a column is unknown, of another type, or may be null against the user's word.
    """
    names = set(offered.names)
    for field in wanted.fields:
        if field.name not in names:
            raise SchemaMismatchError("there is no such column", column=field.name, columns=", ".join(offered.names))
        found = _field(offered.field(field.name))
        if _nullable(found.dataType) != _nullable(field.dataType):
            raise SchemaMismatchError(
                "the column has another type; cast it after reading",
                column=field.name,
                type=found.dataType.simpleString(),
                wanted=field.dataType.simpleString(),
            )
        if found.nullable and not field.nullable:
            raise SchemaMismatchError("the column may be null; say so in the schema", column=field.name)


def cast_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Return the columns that the target names, exactly as it wants them."""
    return pa.RecordBatch.from_arrays(
        [cast_column(batch.column(field.name), field.type) for field in target], schema=target
    )


def cast_column(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return a column exactly as Spark wants it."""
    if column.type.equals(type_):
        return column
    # Arrow's own cast shares what it can, but refuses a null struct whose field is never null.
    return cast_nested(column, type_) if forbids_inner_nulls(type_) else column.cast(type_)


def _field(field: pa.Field) -> spark.StructField:
    return spark.StructField(field.name, spark_type(field.type), field.nullable)


def _has_variant(type_: spark.DataType) -> bool:
    if isinstance(type_, spark.ArrayType):
        return _has_variant(type_.elementType)
    if isinstance(type_, spark.MapType):
        return _has_variant(type_.keyType) or _has_variant(type_.valueType)
    if isinstance(type_, spark.StructType):
        return any(_has_variant(field.dataType) for field in type_.fields)
    return isinstance(type_, spark.VariantType)


def _nullable(type_: spark.DataType) -> spark.DataType:
    """Return the type with nulls allowed everywhere inside, for comparing."""
    if isinstance(type_, spark.ArrayType):
        return spark.ArrayType(_nullable(type_.elementType), True)
    if isinstance(type_, spark.MapType):
        return spark.MapType(_nullable(type_.keyType), _nullable(type_.valueType), True)
    if isinstance(type_, spark.StructType):
        return spark.StructType([spark.StructField(f.name, _nullable(f.dataType), True) for f in type_.fields])
    return type_
