"""The values of `penstock.model.node.owner` as fields of a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock.errors import InvalidError
from penstock.model.node.owner import (
    AcquireOwner,
    AttemptEnd,
    BucketUndo,
    EpochBegun,
    EpochStatus,
    OwnerGrant,
    OwnerInfo,
    UndoResult,
)
from penstock.wire.field import BOOL, BYTES, INT, NAME, TEXT, Field, by_bucket, choice, listed, maybe, record, tupled

COLUMNS: Final = tupled(TEXT)
_ATTEMPT_IDS: Final = listed(BYTES)
_ATTEMPT_ROWS: Final = listed(maybe(INT))


def _write_attempts(value: Mapping[bytes, int | None], batches: list[pa.RecordBatch]) -> Any:
    return [_ATTEMPT_IDS.write(list(value), batches), _ATTEMPT_ROWS.write(list(value.values()), batches)]


def _read_attempts(value: Any, batches: Sequence[pa.RecordBatch]) -> Mapping[bytes, int | None]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidError("malformed message: attempts are their ids and their rows")
    ids, rows = _ATTEMPT_IDS.read(value[0], batches), _ATTEMPT_ROWS.read(value[1], batches)
    if len(ids) != len(rows) or len(set(ids)) < len(ids):
        raise InvalidError("malformed message: attempts are their ids and their rows")
    return dict(zip(ids, rows, strict=True))


ATTEMPTS: Final[Field[Mapping[bytes, int | None]]] = Field(_write_attempts, _read_attempts)

ACQUIRE_OWNER: Final = record(
    AcquireOwner,
    table_id=INT,
    owner=NAME,
    columns=maybe(COLUMNS),
    ttl_ms=maybe(INT),
    incarnation=maybe(NAME),
    holder=NAME,
)
OWNER_GRANT: Final = record(
    OwnerGrant, token=BYTES, ttl_ms=INT, columns=COLUMNS, committed_epoch=INT, open_epoch=maybe(INT)
)
EPOCH_BEGUN: Final = record(EpochBegun, status=choice(EpochStatus), fence=INT)
ATTEMPT_END: Final = record(AttemptEnd, attempt=BYTES, rows=INT, done=BOOL)
UNDO_RESULT: Final = record(
    UndoResult,
    keys=INT,
    rows_removed=INT,
    superseded=INT,
    buckets=by_bucket(INT, INT, INT, make=BucketUndo),
)
OWNER_INFO: Final = record(
    OwnerInfo,
    table=TEXT,
    owner=TEXT,
    columns=COLUMNS,
    fence=INT,
    incarnation=maybe(TEXT),
    committed_epoch=INT,
    open_epoch=maybe(INT),
    rows_pending=INT,
    holder=TEXT,
    held=BOOL,
    expires_in_ms=INT,
)
