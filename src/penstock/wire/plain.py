"""Batches in the form that is sent: every column of its plain type.

Dictionary, run-end and view encodings let a few bytes stand for many, so a server takes none of
them. The sender unfolds its own.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import lib

from penstock.errors import SchemaMismatchError
from penstock.wire.body import is_plain

_PLAIN_OF = {lib.Type_STRING_VIEW: pa.large_string(), lib.Type_BINARY_VIEW: pa.large_binary()}


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with every column of its plain type; the same batch if it is so already.

    Raises:
        SchemaMismatchError: a column cannot be unfolded.
    """
    if all(is_plain(type_) and not type_.num_fields for type_ in batch.schema.types):
        return batch
    fields = [field.with_type(plain_type(field.type)) for field in batch.schema]
    if all(field.type == given.type for field, given in zip(fields, batch.schema, strict=True)):
        return batch
    columns = [_unfold(column, field.type) for column, field in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type whose values are the same and whose encoding is plain."""
    if type_.id in _PLAIN_OF:
        return _PLAIN_OF[type_.id]
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return plain_type(type_.value_type)
    if pa.types.is_list(type_):
        return pa.list_(_plain_field(type_.value_field))
    if pa.types.is_large_list(type_) or pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_):
        return pa.large_list(_plain_field(type_.value_field))
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(_plain_field(type_.value_field), type_.list_size)
    if pa.types.is_struct(type_):
        return pa.struct([_plain_field(field) for field in type_])
    return type_


def _plain_field(field: pa.Field) -> pa.Field:
    return field if is_plain(field.type) and not field.type.num_fields else field.with_type(plain_type(field.type))


def _unfold(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    try:
        return column if column.type == type_ else column.cast(type_)
    except pa.ArrowException as error:
        type_name = str(column.type)
        raise SchemaMismatchError("the column cannot be sent; cast it to a plain type", type=type_name) from error
