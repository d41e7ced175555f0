"""The record of an owner: what must be known of it after a restart. One key, one write for each change.

`owner/<table id>/<owner id>`: a checked frame with a line of JSON for the facts and, behind it, the
committed offsets as packed numbers, so that an owner of a hundred thousand buckets stays small.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from penstock.codec.stored.framed import frame, unframe
from penstock.errors import ConflictError, CorruptionError, PermissionDeniedError
from penstock.model.node.owner_token import NO_EPOCH
from penstock.model.node.principal import UNNAMED, may_change
from penstock.model.place.bucket import BucketId

PREFIX: Final = "owner/"
NUMBERS: Final = "owner-number/"
MAGIC: Final = b"PNOW"
VERSION: Final = 2
_LENGTH: Final = struct.Struct("<I")
_OFFSET: Final = np.dtype([("partition", "<u4"), ("bucket", "<u2"), ("offset", "<i8")])


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """An owner of a table.

    `number` stands for it in log headers and is never used again. `columns` are the ids it holds, None
    for all. `fence` is the newest it was given, `session` the one of its last acquisition. `offsets`
    are those of the last commit or undo; a bucket that is not among them counts from its beginning. `accepted` are
    the attempts whose staged rows are still to be applied for the committed epoch. `lost`: another
    owner took its columns; `released`: it gave them back. `resting`: its last epoch was undone, or it was
    told that it is committed, and it has neither begun another nor left. `principal` is whose owner it is;
    None: the caller was not asked who it is when it was acquired.
    """

    owner: str
    number: int
    columns: tuple[int, ...] | None
    fence: int
    session: int
    incarnation: str | None
    ttl_ms: int
    holder: str
    used_ms: int
    committed: int = NO_EPOCH
    opened: int | None = None
    accepted: tuple[bytes, ...] = ()
    lost: bool = False
    released: bool = False
    resting: bool = False
    principal: str | None = None
    offsets: Mapping[BucketId, int] = field(default_factory=dict, repr=False)

    def start(self, bucket: BucketId) -> int:
        """Return the offset from which on changes of a bucket may be uncommitted."""
        return self.offsets.get(bucket, 0)

    def check_outside(self) -> None:
        """Refuse a write outside epochs of an owner that writes in epochs: begun again, they would count it twice.

        Raises:
            ConflictError: an epoch is open, or the last one was undone or found committed.
        """
        if self.opened is not None or self.resting:
            raise ConflictError(
                "this handle has no epoch open, and its owner writes in epochs; begin() one, "
                "or leave() to write outside epochs",
                owner=self.owner,
                open=self.opened,
                committed=self.committed,
            )

    def check_principal(self, principal: str) -> None:
        """Refuse a principal that it does not belong to; the one that has the files may do anything with them.

        Raises:
            PermissionDeniedError: it is another principal's.
        """
        if self.principal is not None and not may_change(principal, self.principal):
            raise PermissionDeniedError(
                "the owner is another principal's; choose another id", owner=self.owner, principal=self.principal
            )

    def to_bytes(self) -> bytes:
        """Return the record as it is stored."""
        facts = {
            "owner": self.owner,
            "number": self.number,
            "columns": None if self.columns is None else list(self.columns),
            "fence": self.fence,
            "session": self.session,
            "incarnation": self.incarnation,
            "ttl_ms": self.ttl_ms,
            "holder": self.holder,
            "used_ms": self.used_ms,
            "committed": self.committed,
            "opened": self.opened,
            "accepted": [attempt.hex() for attempt in self.accepted],
            "lost": self.lost,
            "released": self.released,
            "resting": self.resting,
            "principal": self.principal,
        }
        line = json.dumps(facts, separators=(",", ":")).encode()
        rows = [(bucket.partition_id, bucket.bucket, offset) for bucket, offset in sorted(self.offsets.items())]
        return frame(MAGIC, VERSION, _LENGTH.pack(len(line)) + line + np.array(rows, _OFFSET).tobytes())

    @classmethod
    def from_bytes(cls, data: bytes, *, table_id: int, name: str) -> OwnerRecord:
        """Return the record stored under a key.

        Raises:
            CorruptionError: the bytes are damaged.
            UnsupportedError: a newer version wrote them.
        """
        _, payload = unframe(MAGIC, VERSION, data, name=name)
        try:
            (length,) = _LENGTH.unpack_from(payload)
            facts: dict[str, Any] = json.loads(payload[_LENGTH.size : _LENGTH.size + length])
            rows = np.frombuffer(payload[_LENGTH.size + length :], _OFFSET)
            columns, accepted = facts.pop("columns"), facts.pop("accepted")
            return cls(
                columns=None if columns is None else tuple(columns),
                accepted=tuple(bytes.fromhex(attempt) for attempt in accepted),
                offsets={BucketId(table_id, partition, bucket): offset for partition, bucket, offset in rows.tolist()},
                **facts,
            )
        except (ValueError, KeyError, TypeError, struct.error) as error:
            raise CorruptionError("owner record does not say what one says", key=name) from error


def principal_of_record(principal: str) -> str | None:
    """Return the principal that the record of an owner names, None for one without a name."""
    return None if principal in UNNAMED else principal


def record_key(table_id: int, owner: str) -> str:
    """Return the key of an owner's record."""
    return f"{PREFIX}{table_id}/{quote(owner, safe='')}"


def table_prefix(table_id: int) -> str:
    """Return what the keys of a table's owners start with."""
    return f"{PREFIX}{table_id}/"


def number_key(table_id: int) -> str:
    """Return the key of the last owner number given on a table."""
    return f"{NUMBERS}{table_id}"
