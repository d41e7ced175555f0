"""Delete by filter: find and delete in one step of the committer, so that no row changes in between."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.engine.commit.group import QueuedWrite, Ranges
from penstock.engine.table.bucket_names import naming
from penstock.engine.table.open_table import OpenTable
from penstock.errors import DeleteDisabledError, UnsupportedError
from penstock.model.filter.filter import Filter
from penstock.model.node.calls import WriteResult
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.model.place.facts import NO_ID
from penstock.model.table.merge_engine import DeleteBehavior
from penstock.tablet.merge.rule import Request
from penstock.tablet.view.view import TabletView


def delete_matching(
    table: OpenTable, condition: bytes | None, writer_id: bytes = NO_ID, sequence: int = -1
) -> WriteResult:
    """Delete the rows that a serialised filter keeps, or all rows; `ignore` tables count them and keep them.

    Raises:
        UnsupportedError: a log table has no deletes.
        DeleteDisabledError: the table's deletes are disabled.
        InvalidError: the bytes are no filter on the table's columns.
    """
    if not table.info.keyed:
        raise UnsupportedError("a log table takes no deletes", table=table.info.path)
    behavior = table.info.options.delete_behavior
    if behavior is DeleteBehavior.DISABLE:
        raise DeleteDisabledError("deletes are disabled on this table by its delete.behavior", table=table.info.path)
    ignored = condition is not None and behavior is DeleteBehavior.IGNORE
    names: dict[BucketId, TableBucket] = {}

    def find() -> QueuedWrite:
        before = _applied(table, writer_id, sequence)
        if before:
            # Its answer was lost: what matches by now was written after it, and stays.
            names.update((bucket, table.name(bucket)) for bucket in before)
            rows = sum(end - start for start, end in before.values())
            return QueuedWrite({}, rows, 0, writer_id=writer_id, sequence=sequence, ranges=before)
        # Here and not before: the columns that it names may be altered until then.
        filter = None if condition is None else Filter.from_bytes(condition, table.info.schema)
        parts = deletes_of(table, filter)
        # Before they are deleted: a partition may be dropped as soon as they are.
        names.update((bucket, table.name(bucket)) for bucket in parts)
        rows = sum(request.rows.num_rows for request in parts.values())
        return QueuedWrite({} if ignored else parts, rows, 0, writer_id=writer_id, sequence=sequence)

    with naming(lambda bucket: names.get(bucket) or table.name(bucket)):
        queued = table.committer.write_found(find)
    changes = sum(end - start for start, end in queued.ranges.values())
    offsets = {names[bucket]: span for bucket, span in sorted(queued.ranges.items())}
    return WriteResult(queued.rows, changes, queued.rows - changes, offsets)


def _applied(table: OpenTable, writer_id: bytes, sequence: int) -> Ranges:
    """Return where the changes of a writer's call are that was applied before. Committer only."""
    if writer_id == NO_ID:
        return {}
    found = {
        bucket: tablet.state.writers.find(writer_id, sequence) for bucket, tablet in table.committer.tablets.items()
    }
    return {bucket: (applied.start, applied.end) for bucket, applied in found.items() if applied is not None}


def deletes_of(table: OpenTable, filter: Filter | None) -> dict[BucketId, Request]:
    """Return what deletes the rows that a filter keeps, or all rows, of every bucket that has some. Committer only."""
    parts: dict[BucketId, Request] = {}
    for bucket, view in table.view.items():
        keys = _matching_keys(table, view, filter)
        if keys.num_rows:
            deletes = np.ones(keys.num_rows, np.bool_)
            parts[bucket] = Request(keys, table.schema.encode_keys(keys), deletes)
    return parts


def _matching_keys(table: OpenTable, view: TabletView, filter: Filter | None) -> pa.RecordBatch:
    key_fields = table.schema.key_fields
    ids = set(key_fields.names) | {str(column) for column in (filter.column_ids if filter is not None else ())}
    projection = pa.schema([field for field in table.schema.user_columns if field.name in ids])
    found = []
    for block in view.scan(view.visible, projection):
        keys = block.batch.select(key_fields.names)
        if filter is not None:
            keys = keys.filter(pa.array(filter.mask_stored(block.batch)))
        found.append(keys)
    if not found:
        return pa.RecordBatch.from_pylist([], schema=key_fields)
    return pa.concat_batches(found)
