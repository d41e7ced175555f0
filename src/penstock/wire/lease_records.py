"""The values of `penstock.model.node.lease` as fields of a frame.

What there is one of for each bucket travels as the columns of a batch: of a hundred thousand buckets a
header would be larger than any may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock.errors import InvalidError
from penstock.model.node.lease import AcquireLease, CutOffsets, Leased, LeaseInfo, LeaseTime, Snapshot
from penstock.model.place.bucket import TableBucket
from penstock.wire.field import BATCH, INT, TEXT, VALUE, Field, by_bucket, maybe, record, tupled
from penstock.wire.records import OFFSET_BY_BUCKET

_SNAPSHOTS: Final = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("table", pa.string(), nullable=False),
        pa.field("partition", pa.string()),
        pa.field("bucket", pa.int64(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("created_ms", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("leased_by", pa.list_(pa.string()), nullable=False),
        pa.field("path", pa.string()),
        pa.field("damaged", pa.string()),
    ]
)
_LEASED: Final = pa.schema(
    [*_SNAPSHOTS, pa.field("table_id", pa.int64(), nullable=False), pa.field("base", pa.int64(), nullable=False)]
)


def _columns(snapshots: Iterable[Snapshot]) -> list[Sequence[Any]]:
    rows = [(s.id, *s.bucket, s.offset, s.created_ms, s.bytes, s.leased_by, s.path, s.damaged) for s in snapshots]
    return list(zip(*rows, strict=True)) if rows else [()] * len(_SNAPSHOTS)


def _batch(columns: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _snapshots(batch: pa.RecordBatch, schema: pa.Schema) -> list[Snapshot]:
    if batch.schema != schema:
        raise InvalidError("malformed message: expected snapshots", found=str(batch.schema.names)[:200])
    columns = (batch.column(name).to_pylist() for name in _SNAPSHOTS.names)
    return [
        Snapshot(number, TableBucket(*bucket), offset, created_ms, size, tuple(leased_by), path, damaged)
        for number, *bucket, offset, created_ms, size, leased_by, path, damaged in zip(*columns, strict=True)
    ]


def _write_snapshots(value: list[Snapshot], batches: list[pa.RecordBatch]) -> Any:
    return BATCH.write(_batch(_columns(value), _SNAPSHOTS), batches)


def _read_snapshots(value: Any, batches: Sequence[pa.RecordBatch]) -> list[Snapshot]:
    return _snapshots(BATCH.read(value, batches), _SNAPSHOTS)


def _write_leased(value: Sequence[Leased], batches: list[pa.RecordBatch]) -> Any:
    columns = _columns(leased.snapshot for leased in value)
    columns += [[leased.table_id for leased in value], [leased.base for leased in value]]
    return BATCH.write(_batch(columns, _LEASED), batches)


def _read_leased(value: Any, batches: Sequence[pa.RecordBatch]) -> Sequence[Leased]:
    batch = BATCH.read(value, batches)
    snapshots = _snapshots(batch, _LEASED)
    ids, bases = batch.column("table_id").to_pylist(), batch.column("base").to_pylist()
    return [Leased(*parts) for parts in zip(ids, snapshots, bases, strict=True)]


SNAPSHOTS: Final[Field[list[Snapshot]]] = Field(_write_snapshots, _read_snapshots)
LEASED: Final[Field[Sequence[Leased]]] = Field(_write_leased, _read_leased)
ACQUIRE_LEASE: Final = record(
    AcquireLease,
    lease_id=TEXT,
    duration_ms=INT,
    latest=tupled(INT),
    snapshots=OFFSET_BY_BUCKET,
    cuts=tupled(record(CutOffsets, table_id=INT, offsets=OFFSET_BY_BUCKET)),
)
LEASE_TIME: Final = record(LeaseTime, duration_ms=INT, expires_ms=INT)
LEASE_INFO: Final = record(
    LeaseInfo,
    "schemas",
    lease_id=TEXT,
    owner=TEXT,
    duration_ms=INT,
    expires_ms=INT,
    leased=LEASED,
    unavailable=by_bucket(TEXT, make=str),
    schemas=maybe(VALUE),
)
