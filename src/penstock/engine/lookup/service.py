"""Rows by key, and rows by the first columns of their key, against one view."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.keys.keys import sort_keys
from penstock.engine.commit.committer import TableView
from penstock.engine.lookup.index_reads import IndexReads, read_index
from penstock.engine.lookup.key_rows import FindBucket, KeyRows
from penstock.engine.lookup.past_rows import past_offsets, scanned_offsets
from penstock.engine.rows.known_columns import check_there, named
from penstock.engine.rows.read_errors import reading
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.pins import not_led
from penstock.errors import InvalidError, PenstockError, SchemaMismatchError
from penstock.model.node.calls import LookupCall, LookupResult
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.model.place.change import NO_OFFSET
from penstock.model.place.system_columns import FOUND, OFFSET_COLUMN
from penstock.model.schema.projection import Projection
from penstock.model.schema.schema import Schema
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.row_reads import read_row

Offsets = npt.NDArray[np.int64]
Parts = dict[BucketId, Offsets | None]
Found = tuple[TableView, list[pa.Array], Offsets]
"""The view, the columns of the rows in the order asked, and where the rows began: NO_OFFSET where there is none."""
Buckets = TypeVar("Buckets", bound=Collection[BucketId])

_SHORT_KEYS_MAX: Final = 1_000
_PLANS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class LookupPlan:
    """The plan of a lookup, what it reads and shows: keys come from the caller, values from the log."""

    names: tuple[str, ...]
    value_names: tuple[str, ...]
    stored: pa.Schema
    shown: pa.Schema
    offsets: bool

    @classmethod
    def of(cls, schema: Schema, columns: tuple[str, ...] | None, *, offsets: bool) -> LookupPlan:
        """Return the plan of a lookup by a reader who knows that schema.

        Raises:
            InvalidError: a column is unknown or named twice, or there is none.
        """
        projection = Projection(schema, columns)
        values = [column for column in projection.columns if column.name not in schema.primary_key]
        shown = [pa.field(c.name, c.type, nullable=c.name not in schema.primary_key) for c in projection.columns]
        return cls(
            projection.names,
            tuple(column.name for column in values),
            pa.schema([column.stored for column in values]),
            pa.schema(
                [
                    *shown,
                    pa.field(FOUND, pa.bool_(), nullable=False),
                    *([OFFSET_COLUMN.with_nullable(True)] if offsets else []),
                ]
            ),
            offsets,
        )


_PLANS: Final[WeakKeyDictionary[OpenTable, dict[tuple[object, ...], LookupPlan]]] = WeakKeyDictionary()
"""Making a plan takes as long as finding a row, and the same few are asked for again and again."""


class KnownCuts(Protocol):
    """The open cuts of the node."""

    def touch(self, cut_id: str) -> None:
        """Keep a cut for another TTL."""

    def find(self, cut_id: str, name: TableBucket) -> BucketId | None:
        """Return the bucket that a name stood for when the cut was opened."""


class LookupService:
    """Answers lookups; implements `penstock.model.node.facets.lookup.LookupFacet`.

    The same for every principal. Thread-safe: a lookup reads one immutable view.
    """

    def __init__(self, tables: Callable[[int], OpenTable], cuts: KnownCuts) -> None:
        self._tables = tables
        self._cuts = cuts

    def rows(self, call: LookupCall) -> LookupResult:
        """Return one row for each key in the order asked, with `_found`."""
        if call.as_of is None:
            return _as_known(self._tables(call.table_id), call, lookup)
        if call.cut_id is None:
            raise InvalidError("name the cut that keeps the rows of then")
        self._cuts.touch(call.cut_id)
        find = partial(self._cuts.find, call.cut_id)
        return _as_known(self._tables(call.table_id), call, partial(past_lookup, find=find))

    def prefix(self, call: LookupCall) -> LookupResult:
        """Return the live rows whose first key columns equal the one row of `keys`."""
        return _as_known(self._tables(call.table_id), call, prefix_lookup)


def _as_known(
    table: OpenTable, call: LookupCall, look: Callable[[OpenTable, LookupCall], LookupResult]
) -> LookupResult:
    """Look up by the schema that the caller knows, and tell it if that is not the present one."""
    try:
        found = look(table, call)
    except SchemaMismatchError as error:
        raise named(error, table.known_schema(call.schema_id)) from error
    if call.schema_id == table.info.schema_id:
        return found
    known = table.known_schema(call.schema_id)
    check_there(table.info.schema, Projection(known, call.columns).columns)
    return replace(found, schema_id=table.info.schema_id)


def lookup(table: OpenTable, call: LookupCall) -> LookupResult:
    """Return one row for each key, in the order asked: the key as given, `_found`, and nulls where there is none.

    Raises:
        UnsupportedError: the table has no key.
        SchemaMismatchError: the keys do not fit the table.
        InvalidError: a column is unknown.
        NotLeaderError: a bucket is not led here.
    """
    keys = KeyRows.of(table, call.keys, table.known_schema(call.schema_id))
    if not keys.complete:
        raise SchemaMismatchError("a key has every key column", primary_key=list(table.info.primary_key))
    plan = _plan(table, call)
    return _despite_drops(keys.buckets, lambda parts: _look_up(table, keys, parts, plan))


def past_lookup(table: OpenTable, call: LookupCall, find: FindBucket) -> LookupResult:
    """Return the same as of a cut; `find` finds its buckets.

    Raises:
        OffsetOutOfRangeError: the cut can no longer be read.
        PenstockError: as `lookup` has it.
    """
    at = call.as_of or {}
    keys = KeyRows.of(table, call.keys, table.known_schema(call.schema_id))
    if not keys.complete:
        raise SchemaMismatchError("a key has every key column", primary_key=list(table.info.primary_key))
    names: dict[BucketId, TableBucket] = {}

    def found(name: TableBucket) -> BucketId | None:
        bucket = find(name) if name in at else None
        if bucket is not None:
            names[bucket] = name
        return bucket

    parts, plan = keys.buckets(found), _plan(table, call)
    offsets = {bucket: at[name] for bucket, name in names.items()}
    rows = _find_past(table, keys, parts, plan.stored, offsets)
    return _shown(keys, plan, rows, {names[bucket]: x for bucket, x in offsets.items()})


def prefix_lookup(table: OpenTable, call: LookupCall) -> LookupResult:
    """Return the live rows whose first key columns equal the one row of `keys`, in key order.

    Raises:
        UnsupportedError: the table has no key.
        SchemaMismatchError: the columns are not the first of the key, or do not fit.
        InvalidError: a column is unknown, or there is not one row.
        NotLeaderError: a bucket is not led here.
    """
    keys = KeyRows.of(table, call.keys, table.known_schema(call.schema_id))
    if call.offsets:
        raise InvalidError("a prefix lookup gives no offsets; scan the rows with a filter", table=table.info.path)
    if keys.count != 1:
        raise SchemaMismatchError("a prefix lookup takes one row", rows=keys.count)
    if keys.complete:
        found = lookup(table, call)
        rows = found.batch.filter(found.batch.column(FOUND)).drop_columns([FOUND])
        return LookupResult(rows, found.offsets)
    projection = Projection(table.known_schema(call.schema_id), call.columns)
    return _despite_drops(keys.possible_buckets, lambda buckets: _look_up_prefix(table, keys, buckets, projection))


def _despite_drops(resolve: Callable[[], Buckets], look: Callable[[Buckets], LookupResult]) -> LookupResult:
    """Look in the buckets that there are, and anew if others are there by then: rows go with their partition."""
    buckets = resolve()
    while True:
        try:
            return look(buckets)
        except PenstockError:
            before, buckets = buckets, resolve()
            if set(before) == set(buckets):
                raise


def _look_up(table: OpenTable, keys: KeyRows, parts: Parts, plan: LookupPlan) -> LookupResult:
    found = (_find_one if keys.count == 1 else _find)(table, keys, parts, plan.stored)
    return _shown(keys, plan, found, {table.name(bucket): found[0][bucket].visible for bucket in parts})


def _shown(keys: KeyRows, plan: LookupPlan, found: Found, at: Mapping[TableBucket, int]) -> LookupResult:
    """Return what was found, up to which offset of each bucket, as it is shown."""
    _, values, offsets = found
    arrays = keys.shown | dict(zip(plan.value_names, values, strict=True))
    columns = [arrays[name] for name in plan.names]
    absent = offsets == NO_OFFSET
    columns.append(pa.array(~absent, pa.bool_()))
    if plan.offsets:
        columns.append(pa.array(offsets, mask=absent))
    batch = pa.RecordBatch.from_arrays(columns, schema=plan.shown)
    return LookupResult(batch, at)


def _look_up_prefix(table: OpenTable, keys: KeyRows, buckets: list[BucketId], projection: Projection) -> LookupResult:
    prefix = keys.encode()[0].as_py()
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


def _plan(table: OpenTable, call: LookupCall) -> LookupPlan:
    plans = _PLANS.setdefault(table, {})
    asked = (call.schema_id, call.columns, call.offsets)
    plan = plans.get(asked)
    if plan is None:
        if len(plans) >= _PLANS_MAX:
            plans.clear()
        plan = plans[asked] = LookupPlan.of(table.known_schema(call.schema_id), call.columns, offsets=call.offsets)
    return plan


def _find(table: OpenTable, keys: KeyRows, parts: Parts, stored: pa.Schema) -> Found:
    """Find many keys."""
    encoded = keys.encode()
    # The index is read in key order, in which neighbours are found together.
    sought = {bucket: sort_keys(encoded if rows is None else encoded.take(rows)) for bucket, rows in parts.items()}
    reads: IndexReads = {bucket: partial(Tablet.lookup, keys=some.keys) for bucket, some in sought.items()}
    view, found = read_index(table.committer, reads, short=keys.count <= _SHORT_KEYS_MAX)
    places, begun = np.full(keys.count, -1, np.int64), np.full(keys.count, NO_OFFSET, np.int64)
    pieces: list[pa.RecordBatch] = []
    count = 0
    for bucket, rows in parts.items():
        offsets = found[bucket]
        hits = offsets != NO_OFFSET
        with reading(table.name(bucket)):
            pieces.append(view[bucket].gather(offsets[hits], stored))
        order = sought[bucket].order[hits]
        asked = order if rows is None else rows[order]
        places[asked], begun[asked] = np.arange(count, count + len(order)), offsets[hits]
        count += len(order)
    return view, _placed(pieces, places, stored), begun


def _find_past(table: OpenTable, keys: KeyRows, parts: Parts, stored: pa.Schema, at: Mapping[BucketId, int]) -> Found:
    """Find keys as of an offset of each bucket."""
    encoded = keys.encode()
    distinct = {b: (encoded if rows is None else encoded.take(rows)).dictionary_encode() for b, rows in parts.items()}
    led = [bucket for bucket in parts if bucket in table.committer.tablets]
    reads: IndexReads = {bucket: partial(_in_order, keys=distinct[bucket].dictionary) for bucket in led}
    view, live = read_index(table.committer, reads, short=keys.count <= _SHORT_KEYS_MAX)
    places, begun = np.full(keys.count, -1, np.int64), np.full(keys.count, NO_OFFSET, np.int64)
    pieces: list[pa.RecordBatch] = []
    count = 0
    for bucket, rows in parts.items():
        of, x = distinct[bucket].dictionary, at[bucket]
        one = view[bucket] if bucket in live else table.view_of(bucket)
        if one is None:
            raise not_led(bucket)
        one.check_readable(x)
        with reading(bucket):
            if bucket in live:
                starts = past_offsets(one, table.schema, of, live[bucket], x)
            else:
                starts = scanned_offsets(one, table.schema, of, x)
            offsets = starts[distinct[bucket].indices.to_numpy()]
            hits = np.flatnonzero(offsets != NO_OFFSET)
            pieces.append(one.gather(offsets[hits], stored))
        asked = hits if rows is None else rows[hits]
        places[asked], begun[asked] = np.arange(count, count + len(hits)), offsets[hits]
        count += len(hits)
    return view, _placed(pieces, places, stored), begun


def _in_order(tablet: Tablet, keys: pa.BinaryArray) -> Offsets:
    """Return what the index says of distinct keys; it is read in key order, in which neighbours are found together."""
    sought = sort_keys(keys)
    found = np.empty(len(keys), np.int64)
    found[sought.order] = tablet.lookup(sought.keys)
    return found


def _find_one(table: OpenTable, keys: KeyRows, parts: Parts, stored: pa.Schema) -> Found:
    """Do the same for one key, with less ado."""
    view, offset = table.view, NO_OFFSET
    for bucket in parts:
        view, found = read_index(table.committer, {bucket: partial(Tablet.lookup, keys=keys.encode())}, short=True)
        offset = int(found[bucket][0])
        if offset != NO_OFFSET:
            with reading(bucket):
                return view, read_row(view[bucket], offset, stored), found[bucket]
    return view, [pa.nulls(1, field.type) for field in stored], np.full(1, NO_OFFSET, np.int64)


def _placed(pieces: list[pa.RecordBatch], places: Offsets, stored: pa.Schema) -> list[pa.Array]:
    """Return columns in which each row stands at its place, null where there is none."""
    if not stored.names:
        return []
    rows = pa.concat_batches([pa.RecordBatch.from_pylist([], schema=stored), *pieces])
    return list(rows.take(pa.array(places, mask=places == -1)).columns)
