"""The router of write calls to requests per bucket: check the rows, name columns by id, partition, route.

Nothing is looked up here that a write could change: what is wrong with a call by itself is found
before it waits for the committer, and then nothing of it was written.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec.keys.routing import bucket_of
from penstock.engine.commit.change_types import change_types, retractions
from penstock.engine.commit.expectation import Expectation, check_distinct
from penstock.engine.commit.group import QueuedWrite
from penstock.errors import DeleteDisabledError, InvalidError, SchemaMismatchError, UnsupportedError
from penstock.log.tail import bytes_of
from penstock.model.node.calls import Operation, WriteCall
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import NO_OFFSET, OFFSET, ChangeType
from penstock.model.place.facts import NO_ID
from penstock.model.place.system_columns import CHANGE_TYPE
from penstock.model.schema.agg_mode import AggMode
from penstock.model.schema.inner_nulls import first_inner_null
from penstock.model.schema.schema import Schema
from penstock.model.table.merge_engine import DeleteBehavior
from penstock.model.table.partition import partition_codes, partition_columns
from penstock.model.table.table import TableInfo
from penstock.tablet.merge.rule import Expected, Request
from penstock.tablet.schema import TabletSchema

ROWS_ENCODED_TOGETHER: Final = 64
"""The keys of so few rows are left to the committer, which encodes those of many calls at once."""

Mask = npt.NDArray[np.bool_]
PartitionIds = Callable[[Sequence[str], Sequence[bool]], list[int]]
"""Return the ids of partitions by name. A missing one is made where that is asked for, else it is NO_PARTITION."""
NO_PARTITION: Final = -1
EXPECTING: Final = frozenset((Operation.UPSERT, Operation.DELETE))
"""What may expect rows to be there, as the column of the offsets says it."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows in storage terms, before they are told apart by bucket."""

    batch: pa.RecordBatch
    deletes: Mask | None = None
    columns: tuple[int, ...] | None = None
    clears: bool = False
    mode: AggMode = AggMode.ACCUMULATE
    retracts: Mask | None = None
    only_checked: bool = False


class WriteRouter:
    """Routes the calls of one table at one schema. Thread-safe: it changes a counter only, at once."""

    def __init__(self, info: TableInfo, schema: TabletSchema, partition_ids: PartitionIds) -> None:
        self._info = info
        self._schema = schema
        self._partition_ids = partition_ids
        self._turn = itertools.count()
        columns = info.schema.columns
        self._storage = pa.schema([pa.field(str(column.id), column.type) for column in columns])
        self._required = [place for place, column in enumerate(columns) if not column.nullable]
        self._whole = (schema.schema_id, None, tuple(self._storage.names))

    def route(self, call: WriteCall, known: Schema) -> QueuedWrite:
        """Return the call as requests per bucket; `known` is the schema that the writing handle knows.

        Raises:
            InvalidError: the rows do not fit the table, or the table does not take the operation.
        """
        self._check_operation(call)
        expected = None
        if OFFSET in call.batch.schema.names and call.operation in EXPECTING:
            call, expected = self._expected(call)
        rows = self._rows(call, known, expects=expected is not None)
        parts = self._split(rows, self._turn_of(call), expected)
        alike = rows.deletes is None and rows.retracts is None and not rows.clears and not self._deletes_at_zero
        return QueuedWrite(
            parts=parts,
            rows=call.batch.num_rows,
            size_bytes=bytes_of(call.batch),
            columns=rows.columns,
            writer_id=call.writer_id,
            sequence=call.sequence,
            shape=self._shape(rows, call.schema_id) if alike and expected is None else None,
            expectation=None if expected is None else self._expectation(parts, known),
            schema_id=call.schema_id,
            known=known,
        )

    def _expected(self, call: WriteCall) -> tuple[WriteCall, Expected]:
        """Return a call without the column of the offsets that it expects, and these."""
        if call.owner is not None:
            raise UnsupportedError("expect= does not go with an owner; write outside of it", table=self._info.path)
        offsets = call.batch.column(OFFSET)
        if offsets.type != pa.int64() or pc.any(pc.less(offsets, 0)).as_py():
            raise InvalidError("expect= is an offset or None for each row", column=OFFSET, type=str(offsets.type))
        expected = Expected(
            pc.fill_null(offsets, NO_OFFSET).to_numpy(zero_copy_only=False), np.arange(len(offsets), dtype=np.int64)
        )
        return replace(call, batch=call.batch.drop_columns([OFFSET])), expected

    def _expectation(self, parts: dict[BucketId, Request], known: Schema) -> Expectation:
        """Take the rows in partitions that do not exist out of the requests."""
        nowhere = [bucket for bucket in parts if bucket.partition_id == NO_PARTITION]
        return Expectation(known, tuple(parts.pop(bucket) for bucket in nowhere))

    def _shape(self, rows: _Rows, schema_id: int) -> object:
        if schema_id == self._schema.schema_id and rows.columns is None and rows.batch.schema.equals(self._storage):
            return (self._whole, rows.mode)
        return (self._schema.schema_id, schema_id, rows.columns, tuple(rows.batch.schema.names), rows.mode)

    def _turn_of(self, call: WriteCall) -> int:
        """Return whose turn it is among buckets without a key; a retry finds the bucket of the first try (I-6)."""
        if call.writer_id == NO_ID:
            return next(self._turn)
        return int.from_bytes(call.writer_id[:4], "little") + call.sequence

    def _check_operation(self, call: WriteCall) -> None:
        info, operation = self._info, call.operation
        if not info.keyed and operation in {Operation.UPSERT, Operation.DELETE}:
            raise UnsupportedError(f"a log table takes no {operation}; use append", table=info.path)
        if info.keyed and operation is Operation.APPEND:
            raise UnsupportedError("a table with a primary key takes no append; use upsert", table=info.path)
        if operation is Operation.DELETE and info.options.delete_behavior is DeleteBehavior.DISABLE:
            raise DeleteDisabledError("deletes are disabled on this table by its delete.behavior", table=info.path)
        if call.columns is not None and not info.takes_partial:
            kind = "a log table" if info.merge_engine is None else f"the merge engine {info.merge_engine}"
            raise UnsupportedError(f"{kind} takes whole rows only; leave out columns=", table=info.path)
        if call.agg_mode is AggMode.ACCUMULATE:
            return
        if not info.folds:
            raise InvalidError("agg_mode is for aggregating tables only", table=info.path, agg_mode=call.agg_mode.value)
        if operation is not Operation.UPSERT:
            raise InvalidError(f"agg_mode goes with upsert, not with {operation}", agg_mode=call.agg_mode.value)

    def _rows(self, call: WriteCall, known: Schema, *, expects: bool) -> _Rows:
        if call.operation is Operation.DELETE:
            return self._deleted(call, known, expects=expects)
        batch, deletes, retracts = call.batch, None, None
        if call.operation is Operation.APPLY and self._info.retracts:
            kinds, batch = change_types(batch), batch.drop_columns([CHANGE_TYPE])
            keys = known.primary_key
            given = zip(batch.schema.names, batch.columns, strict=True)
            retracts = retractions(kinds, [column for name, column in given if name not in keys])
        elif call.operation is Operation.APPLY:
            batch, deletes = self._applied(batch)
        mode = call.agg_mode
        if call.columns is None and call.schema_id == self._schema.schema_id and self._fits(batch):
            # As nearly every batch comes; what follows costs a small one more than its commit.
            stored = pa.RecordBatch.from_arrays(batch.columns, schema=self._storage)
            return _Rows(stored, deletes, mode=mode, retracts=retracts)
        known = self._without_absent(batch, known)
        named = self._named(call, batch, known)
        wanted = known.names if named is None else [*known.primary_key, *named]
        stored = self._stored(batch, known, wanted)
        _check_not_null(stored if deletes is None else stored.filter(pa.array(~deletes)), known, wanted)
        columns: tuple[int, ...] | None = None
        if named is not None:
            columns = tuple(known.column(name).id for name in named)
        elif self._info.keyed and any(known.column_by_id(c.id) is None for c in self._info.schema.columns):
            # The handle is older than a column, or left it out: the column keeps its values.
            columns = tuple(column.id for column in known.value_columns)
        return _Rows(stored, deletes, columns, mode=mode, retracts=retracts)

    def _without_absent(self, batch: pa.RecordBatch, known: Schema) -> Schema:
        """Return what the handle knows but for columns that rows leave out, as they may if these were added later."""
        sent = set(batch.schema.names)
        kept = tuple(column for column in known.columns if column.name in sent or not self._info.was_added(column))
        return known if len(kept) == len(known.columns) else Schema(kept, known.primary_key, known.ids_end)

    def _named(self, call: WriteCall, batch: pa.RecordBatch, known: Schema) -> list[str] | None:
        """Return the columns outside the key that a call writes; None for all that the handle knows."""
        if not self._info.folds:
            return None if call.columns is None else _values(call.columns, known)
        if call.columns:
            return _values(call.columns, known)
        present = [column.name for column in known.value_columns if column.name in batch.schema.names]
        return present if len(present) < len(known.value_columns) else None

    @property
    def _deletes_at_zero(self) -> bool:
        return self._info.options.aggregate_delete_at_zero is not None

    def _deleted(self, call: WriteCall, known: Schema, *, expects: bool) -> _Rows:
        keys = self._stored(call.batch, known, list(known.primary_key))
        if self._info.options.delete_behavior is DeleteBehavior.IGNORE:
            return _Rows(keys, only_checked=True) if expects else _Rows(keys.slice(0, 0))
        if call.columns is None:
            return _Rows(keys, deletes=np.ones(keys.num_rows, np.bool_))
        columns = tuple(known.column(name).id for name in _values(call.columns, known))
        return _Rows(keys, columns=columns, clears=True)

    def _applied(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Mask | None]:
        """Tell upserts and deletes apart; images before an update say nothing new."""
        kinds = change_types(batch)
        batch = batch.drop_columns([CHANGE_TYPE])
        deletes = pc.equal(kinds, ChangeType.DELETE.value)
        skipped = pc.equal(kinds, ChangeType.UPDATE_BEFORE.value)
        behavior = self._info.options.delete_behavior
        if not self._info.keyed or behavior is DeleteBehavior.DISABLE:
            if pc.any(pc.or_(deletes, skipped) if not self._info.keyed else deletes).as_py():
                raise DeleteDisabledError(
                    "deletes are disabled on this table by its delete.behavior", table=self._info.path
                )
            deletes = pc.and_(deletes, False)
        elif behavior is DeleteBehavior.IGNORE:
            skipped = pc.or_(skipped, deletes)
        kept = pc.invert(skipped)
        mask = deletes.filter(kept).to_numpy(zero_copy_only=False)
        return batch.filter(kept), mask if mask.any() else None

    def _stored(self, batch: pa.RecordBatch, known: Schema, wanted: Sequence[str]) -> pa.RecordBatch:
        """Return the wanted columns by id, in the types that the writer knows."""
        names = batch.schema.names
        if len(set(names)) < len(names):
            raise SchemaMismatchError("a column is there twice", columns=names)
        for name in names:
            if name not in known:
                raise SchemaMismatchError("no such column in the table", column=name, table=self._info.path)
        arrays, fields = [], []
        for name in wanted:
            column = known.column(name)
            if name not in names:
                raise SchemaMismatchError(
                    "column is missing; add it, or pass columns=[...] to write only some", column=name
                )
            array = batch.column(name)
            if array.type != column.type:
                raise SchemaMismatchError(
                    "column has another type", column=name, type=str(array.type), expected=str(column.type)
                )
            if name in known.primary_key and array.null_count:
                row = pc.index(array.is_null(), True).as_py()
                raise SchemaMismatchError("key columns are never null", column=name, row=row)
            arrays.append(array)
            fields.append(pa.field(str(column.id), column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _fits(self, batch: pa.RecordBatch) -> bool:
        """Tell whether a batch has the columns of the table as it is, and no null where one must not be."""
        schema = self._info.schema
        return (
            batch.schema.equals(schema.arrow_schema)
            and not schema.inner_required
            and not any(batch.column(place).null_count for place in self._required)
        )

    def _split(self, rows: _Rows, turn: int, expected: Expected | None) -> dict[BucketId, Request]:
        """Tell the rows apart by partition and bucket.

        Rows of partitions that do not exist are left out; of those that expect something a request is made.
        """
        batch = rows.batch
        if batch.num_rows == 0:
            return {}
        together = batch.num_rows <= ROWS_ENCODED_TOGETHER and expected is None
        keys = self._schema.encode_keys(batch) if self._schema.keyed and not together else None
        if expected is not None:
            check_distinct(self._info.schema, batch, keys)
        table_id, buckets = self._info.table_id, self._info.buckets
        whole = Request(
            batch,
            keys,
            rows.deletes,
            rows.columns,
            rows.clears,
            rows.mode,
            rows.retracts,
            expected=expected,
            only_checked=rows.only_checked,
        )
        if buckets == 1 and not self._info.partitioned:
            return {BucketId(table_id, 0, 0): whole}
        partitions, codes = self._destinations(whole, turn)
        found = codes if len(codes) == 1 else np.unique(codes)
        bounds = [0, len(codes)]
        if len(found) > 1:
            order = np.argsort(codes, kind="stable")
            bounds = [*np.searchsorted(codes[order], found).tolist(), len(order)]
            whole = whole.take(order)
        parts = {}
        for code, start, end in zip(found.tolist(), bounds[:-1], bounds[1:], strict=True):
            partition, bucket = divmod(code, buckets)
            if partitions[partition] == NO_PARTITION and expected is None:
                continue
            part = whole if len(found) == 1 else whole.slice(start, end - start)
            # Names of partitions that do not exist are not told apart.
            there = BucketId(table_id, partitions[partition], code if partitions[partition] == NO_PARTITION else bucket)
            parts[there] = part
        return parts

    def _destinations(self, whole: Request, turn: int) -> tuple[list[int], npt.NDArray[np.int64]]:
        """Return the ids of the partitions concerned, and for each row partition * buckets + bucket."""
        info, batch = self._info, whole.rows
        partitions = [0]
        codes: npt.NDArray[np.int64] = np.zeros(batch.num_rows, np.int64)
        if info.partitioned:
            columns = partition_columns(info.schema, info.partitioned_by)
            names, codes = partition_codes(columns, [batch.column(str(column.id)) for column in columns])
            partitions = self._partition_ids(names, _made(whole, names, codes))
        if info.buckets == 1:
            return partitions, codes
        if info.bucket_key:
            columns = tuple(info.schema.column(name) for name in info.bucket_key)
            buckets = bucket_of([batch.column(str(column.id)) for column in columns], info.buckets)
            return partitions, codes * info.buckets + buckets
        return partitions, codes * info.buckets + turn % info.buckets


def _made(whole: Request, names: Sequence[str], codes: npt.NDArray[np.int64]) -> list[bool]:
    """Tell which partitions the rows make if they are missing: not those in which they only delete.

    Nor those in which every row expects another: there is none.
    """
    if whole.clears or whole.only_checked:
        return [False] * len(names)
    makes = np.ones(len(codes), np.bool_) if whole.deletes is None else ~whole.deletes
    if whole.expected is not None:
        makes &= whole.expected.offsets == NO_OFFSET
    kept: list[int] = np.bincount(codes, weights=makes, minlength=len(names)).tolist()
    return [count > 0 for count in kept]


def _values(columns: Sequence[str], known: Schema) -> list[str]:
    """Return the named columns without those of the key."""
    values = [known.column(name).name for name in columns if name not in known.primary_key]
    if not values:
        raise InvalidError("columns= names no column besides the key", columns=list(columns))
    if len(set(values)) < len(values):
        raise InvalidError("columns= names a column twice", columns=list(columns))
    return values


def _check_not_null(stored: pa.RecordBatch, known: Schema, wanted: Sequence[str]) -> None:
    for name, array in zip(wanted, stored.columns, strict=True):
        if array.null_count and not known.column(name).nullable:
            row = pc.index(array.is_null(), True).as_py()
            raise SchemaMismatchError("column is NOT NULL", column=name, row=row)
        if known.column(name) in known.inner_required and (row := first_inner_null(array)) is not None:
            raise SchemaMismatchError("the column's type is NOT NULL inside", column=name, row=row)
