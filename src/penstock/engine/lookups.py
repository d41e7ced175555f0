"""Rows by key, and rows by the first columns of their key, against one view."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.keys import sort_keys
from penstock.engine.committer import TableView
from penstock.engine.index_reads import IndexReads, read_index
from penstock.engine.key_rows import KeyRows
from penstock.engine.live_table import LiveTable
from penstock.engine.projection import Projection
from penstock.engine.read_errors import reading
from penstock.errors import SchemaMismatchError
from penstock.model.bucket import BucketId
from penstock.model.calls import LookupCall, LookupResult
from penstock.tablet.tablet import Tablet

Offsets = npt.NDArray[np.int64]

FOUND: Final = "_found"
_SHORT_KEYS_MAX: Final = 1_000


def lookup(table: LiveTable, call: LookupCall) -> LookupResult:
    """Return one row for each key, in the order asked: the key as given, `_found`, and nulls where there is none.

    Raises:
        UnsupportedError: the table has no key.
        SchemaMismatchError: the keys do not fit the table.
        InvalidError: a column is unknown.
        NotLeaderError: a bucket is not led here.
    """
    keys = KeyRows.of(table, call.keys)
    if not keys.complete:
        raise SchemaMismatchError("a key has every key column", primary_key=list(table.info.primary_key))
    projection = Projection(table.known_schema(call.schema_id), call.columns)
    values = [column for column in projection.columns if column.name not in keys.arrays]
    stored = pa.schema([pa.field(str(column.id), column.type) for column in values])
    parts = keys.buckets()
    view, places, pieces = _find(table, keys, parts, stored)
    arrays = dict(zip((column.name for column in values), _placed(pieces, places, stored), strict=True))
    fields = [pa.field(c.name, c.type, nullable=c.name not in keys.arrays) for c in projection.columns]
    columns = [arrays[name] if name in arrays else keys.arrays[name] for name in projection.names]
    batch = pa.RecordBatch.from_arrays(
        [*columns, pa.array(places >= 0)], schema=pa.schema([*fields, pa.field(FOUND, pa.bool_(), nullable=False)])
    )
    return LookupResult(batch, {table.name(bucket): view[bucket].visible for bucket in parts})


def prefix_lookup(table: LiveTable, call: LookupCall) -> LookupResult:
    """Return the live rows whose first key columns equal the one row of `keys`, in key order.

    Raises:
        UnsupportedError: the table has no key.
        SchemaMismatchError: the columns are not the first of the key, or do not fit.
        InvalidError: a column is unknown, or there is not one row.
        NotLeaderError: a bucket is not led here.
    """
    keys = KeyRows.of(table, call.keys)
    if keys.count != 1:
        raise SchemaMismatchError("a prefix lookup takes one row", rows=keys.count)
    if keys.complete:
        found = lookup(table, call)
        rows = found.batch.filter(found.batch.column(FOUND)).drop_columns([FOUND])
        return LookupResult(rows, found.offsets)
    projection = Projection(table.known_schema(call.schema_id), call.columns)
    prefix = keys.encode()[0].as_py()
    buckets = keys.possible_buckets()
    reads: IndexReads = {bucket: partial(Tablet.lookup_prefix, prefix=prefix) for bucket in buckets}
    view, offsets = read_index(table.committer, reads, short=False)
    stored = projection.stored_with(table.schema.key_fields if len(buckets) > 1 else ())
    pieces = [pa.RecordBatch.from_pylist([], schema=stored)]
    for bucket in buckets:
        with reading(table.name(bucket)):
            pieces.append(view[bucket].gather(offsets[bucket], stored))
    rows = pa.concat_batches(pieces)
    if len(buckets) > 1:
        rows = rows.take(pa.array(sort_keys(table.schema.encode_keys(rows)).order))
    return LookupResult(projection.show(rows), {table.name(bucket): view[bucket].visible for bucket in buckets})


def _find(
    table: LiveTable, keys: KeyRows, parts: dict[BucketId, Offsets | None], stored: pa.Schema
) -> tuple[TableView, Offsets, list[pa.RecordBatch]]:
    """Return the rows found, and for each key the place of its row among them, -1 where there is none."""
    encoded = keys.encode()
    reads: IndexReads = {
        bucket: partial(Tablet.lookup, keys=encoded if rows is None else encoded.take(pa.array(rows)))
        for bucket, rows in parts.items()
    }
    view, found = read_index(table.committer, reads, short=keys.count <= _SHORT_KEYS_MAX)
    places = np.full(keys.count, -1, np.int64)
    pieces: list[pa.RecordBatch] = []
    count = 0
    for bucket, rows in parts.items():
        offsets = found[bucket]
        hits = np.flatnonzero(offsets >= 0)
        if len(hits):
            with reading(table.name(bucket)):
                pieces.append(view[bucket].gather(offsets[hits], stored))
            places[hits if rows is None else rows[hits]] = np.arange(count, count + len(hits))
            count += len(hits)
    return view, places, pieces


def _placed(pieces: list[pa.RecordBatch], places: Offsets, stored: pa.Schema) -> list[pa.Array]:
    """Return columns in which each row stands at its place, null where there is none."""
    if not pieces:
        return [pa.nulls(len(places), field.type) for field in stored]
    rows = pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
    if len(pieces) == 1 and rows.num_rows == len(places):
        return list(rows.columns)
    return list(rows.take(pa.array(places, mask=places < 0)).columns)
