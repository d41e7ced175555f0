"""Requests that were made under another schema of the table than the one they are planned under.

A call is routed by the columns that its writer knows, and may wait while the table is altered. So what the alteration
means for it is decided here, in the committer, behind the look at what the writer wrote before: a retry of a call that
was applied gets its first answer, also if it names a column that was dropped since.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.errors import SchemaMismatchError
from penstock.model.schema.schema import Schema
from penstock.model.schema.stored_field import fitted_values
from penstock.tablet.merge.rule import Request
from penstock.tablet.schema import TabletSchema


def conformed(request: Request, schema: TabletSchema, known: Schema | None) -> Request:
    """Return a request in the columns and types of a schema; columns that it leaves out keep their values.

    `known` is the schema that its writer knows, for the names in errors.

    Raises:
        SchemaMismatchError: it names a column that was dropped since.
    """
    rows = request.rows
    if not rows.schema.equals(schema.user_columns):
        there = {field.name: field for field in schema.user_columns}
        for name in (*rows.schema.names, *(str(column) for column in request.columns or ())):
            if name not in there:
                raise _dropped(int(name), known)
        wanted = pa.schema([there[name] for name in rows.schema.names])
        if wanted.types != rows.schema.types:
            columns = [fitted_values(values, field) for values, field in zip(rows.columns, wanted, strict=True)]
            request = replace(request, rows=pa.RecordBatch.from_arrays(columns, schema=wanted))
    return of_schema(request, schema)


def of_schema(request: Request, schema: TabletSchema) -> Request:
    """Return the request for a schema that may have grown since it was routed: new columns keep their values."""
    only_deletes = request.deletes is not None and bool(request.deletes.all())
    whole = request.columns is None and not only_deletes and schema.keyed and not request.exact
    if not whole or request.rows.num_columns == len(schema.user_columns):
        return request
    written = tuple(int(name) for name in request.rows.schema.names)
    return replace(request, columns=tuple(column for column in written if column not in schema.key_columns))


def _dropped(column_id: int, known: Schema | None) -> SchemaMismatchError:
    column = None if known is None else known.column_by_id(column_id)
    return SchemaMismatchError(
        "the column was dropped; leave it out, or open the table again",
        column=column_id if column is None else column.name,
    )
