"""The values of `penstock.model.lease` as fields of a frame."""

from __future__ import annotations

from typing import Final

from penstock.model.lease import AcquireLease, CutOffsets, Leased, LeaseInfo, Snapshot
from penstock.wire.field import BUCKET, INT, TEXT, by_bucket, listed, maybe, record, tupled
from penstock.wire.records import OFFSET_BY_BUCKET

SNAPSHOT: Final = record(
    Snapshot,
    id=maybe(INT),
    bucket=BUCKET,
    offset=INT,
    created_ms=INT,
    bytes=INT,
    leased_by=tupled(TEXT),
    path=maybe(TEXT),
)
ACQUIRE_LEASE: Final = record(
    AcquireLease,
    lease_id=TEXT,
    duration_ms=INT,
    latest=tupled(INT),
    snapshots=OFFSET_BY_BUCKET,
    cuts=tupled(record(CutOffsets, table_id=INT, offsets=OFFSET_BY_BUCKET)),
)
LEASE_INFO: Final = record(
    LeaseInfo,
    lease_id=TEXT,
    owner=TEXT,
    duration_ms=INT,
    expires_ms=INT,
    bytes=INT,
    leased=listed(record(Leased, table_id=INT, snapshot=SNAPSHOT, base=INT)),
    unavailable=by_bucket(TEXT, make=str),
)
