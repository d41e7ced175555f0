"""A lease as it is stored: who has it, until when, and what it pins, in columns.

One row for each bucket, sorted. The columns are stored one after the other, those that rise or repeat
as the differences of neighbours, their bytes sorted by significance, deflated: of a hundred thousand
buckets little more remains than the offsets.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.codec.stored.framed import frame, unframe
from penstock.errors import CorruptionError
from penstock.model.place.bucket import BucketId

MAGIC: Final = b"PNLS"
VERSION: Final = 3
BUCKETS_MAX: Final = 1_000_000
_HEAD: Final = struct.Struct("<II")
_COLUMNS: Final = 8
_COLUMNS_OF_VERSION_1: Final = 7
UNKNOWN: Final = -1
"""The bytes of a snapshot that was leased before they were stored."""
_OFFSET, _PIN = 4, 5
_RISING: Final = (0, 1, 2, 6)
"""Table, partition, bucket and time: those whose neighbours are alike."""
_LEVEL: Final = 1

Rows = npt.NDArray[np.int64]


class Hold(NamedTuple):
    """What a lease pins in a bucket: the offset it reads at, and the base it needs.

    `snapshot_id` is 0 for a cut, which has no number. The pin is the offset itself, except in a log
    table, whose rows before the offset are needed too. `bytes` is the size of the snapshot.
    """

    snapshot_id: int
    offset: int
    pin: int
    created_ms: int
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease. `expires_ms` is wall time, and counts only when a node starts.

    `rows` has a row for each bucket: table, partition, bucket, then its `Hold`. `schemas` has the schema of each table,
    by id, when it was acquired; before version 3 that was not stored.
    """

    lease_id: str
    owner: str
    duration_ms: int
    expires_ms: int
    created_ms: int
    rows: Rows = field(compare=False)
    schemas: Mapping[int, int] = field(default_factory=dict)

    def holds(self) -> dict[BucketId, Hold]:
        """Return what is held, by bucket."""
        return {BucketId(*row[:3]): Hold(*row[3:]) for row in self.rows.tolist()}


def hold_rows(holds: Mapping[BucketId, Hold]) -> Rows:
    """Return what is held in rows, sorted by bucket."""
    values = chain.from_iterable((b.table_id, b.partition_id, b.bucket, *hold) for b, hold in holds.items())
    rows = np.fromiter(values, np.int64, count=_COLUMNS * len(holds)).reshape(-1, _COLUMNS)
    return rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]


def encode_lease(lease: LeaseRecord) -> bytes:
    """Return the lease as it is stored."""
    facts: dict[str, Any] = {
        "lease_id": lease.lease_id,
        "owner": lease.owner,
        "duration_ms": lease.duration_ms,
        "expires_ms": lease.expires_ms,
        "created_ms": lease.created_ms,
    }
    if lease.schemas:
        facts["schemas"] = [[table_id, schema_id] for table_id, schema_id in sorted(lease.schemas.items())]
    head = json.dumps(facts, separators=(",", ":")).encode()
    columns = np.ascontiguousarray(lease.rows.T, "<i8")
    # Mostly zeros: a pin is its offset.
    columns[_PIN] = columns[_OFFSET] - columns[_PIN]
    for column in _RISING:
        columns[column] = np.diff(columns[column], prepend=0)
    shuffled = columns.view(np.uint8).reshape(_COLUMNS, len(lease.rows), 8).transpose(0, 2, 1)
    body = zlib.compress(shuffled.tobytes(), _LEVEL)
    return frame(MAGIC, VERSION, b"".join((_HEAD.pack(len(head), len(lease.rows)), head, body)))


def decode_lease(data: bytes, *, name: str) -> LeaseRecord:
    """Return the lease stored in `data`.

    Raises:
        CorruptionError: the bytes are damaged.
        UnsupportedError: a newer version wrote them.
    """
    version, payload = unframe(MAGIC, VERSION, data, name=name)
    columns = _COLUMNS if version > 1 else _COLUMNS_OF_VERSION_1
    try:
        head_length, count = _HEAD.unpack_from(payload)
        facts = json.loads(payload[_HEAD.size : _HEAD.size + head_length])
        facts["schemas"] = dict(facts.get("schemas", ()))
        return LeaseRecord(**facts, rows=_decode_rows(payload[_HEAD.size + head_length :], count, columns))
    except (struct.error, zlib.error, ValueError, TypeError) as error:
        raise CorruptionError("lease does not say what a lease says", file=name) from error


def _decode_rows(body: bytes, count: int, stored: int) -> Rows:
    if count > BUCKETS_MAX:
        raise ValueError("more buckets than a lease may have")
    # Inflated to the size that is expected and no further.
    plain = zlib.decompressobj().decompress(body, count * stored * 8) if count else b""
    shuffled = np.frombuffer(plain, np.uint8).reshape(stored, 8, count).transpose(0, 2, 1)
    columns = np.full((_COLUMNS, count), UNKNOWN, np.int64)
    columns[:stored] = np.ascontiguousarray(shuffled).view("<i8").reshape(stored, count)
    for column in _RISING:
        columns[column] = np.cumsum(columns[column])
    columns[_PIN] = columns[_OFFSET] - columns[_PIN]
    return np.ascontiguousarray(columns.T)
