"""The call that goes on after a page, made of its resume token, at the same snapshot."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.catalog.identity import Identity
from penstock.engine.scan.resume_token import ResumeToken
from penstock.engine.table.open_table import OpenTable
from penstock.errors import InvalidError, NotFoundError, PartitionNotFoundError, TableNotFoundError
from penstock.model.node.calls import OpenScan
from penstock.model.place.bucket import TableBucket


def resumed_call(token: bytes, tables: Callable[[int], OpenTable], identity: Identity) -> OpenScan:
    """Return the call that goes on, at the same snapshot, where the page with that token ended.

    Raises:
        InvalidError: the bytes are no token of a scan of this database.
        TableNotFoundError: the table was dropped.
        PartitionNotFoundError: the partition was dropped.
    """
    stored = ResumeToken.decode(token)
    table = tables(stored.bucket.table_id)
    try:
        schema = table.known_schema(stored.schema_id)
    except TableNotFoundError:
        raise
    except NotFoundError as error:
        raise InvalidError("the resume token is of another node's table", table=table.info.path) from error
    columns = [schema.column_by_id(column) for column in stored.columns]
    names = tuple(column.name for column in columns if column is not None)
    if len(names) < len(columns):
        raise InvalidError("the resume token is of another node's table", table=table.info.path)
    bucket = _named(table, stored)
    if stored.database is not None:
        identity.check_origin(stored.database, stored.bucket.table_id, {bucket: stored.log_offset})
    return OpenScan(
        table_id=stored.bucket.table_id,
        schema_id=stored.schema_id,
        bucket=bucket,
        columns=names,
        filter=stored.filter,
        limit=stored.limit,
        page_bytes=stored.page_bytes,
        as_of=stored.log_offset,
        start=stored.next_offset,
        end=stored.end,
        offsets=stored.offsets,
    )


def _named(table: OpenTable, token: ResumeToken) -> TableBucket:
    try:
        return table.name(token.bucket)
    except PartitionNotFoundError as error:
        if table.info.partitioned and 0 <= token.bucket.bucket < table.info.buckets:
            raise
        raise InvalidError("the resume token is of another node's table", table=table.info.path) from error
