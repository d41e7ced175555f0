"""Snapshots and leases, as users see them and as calls carry them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from penstock.errors import InvalidError, LimitError
from penstock.model.place.bucket import TableBucket
from penstock.model.words.html_fields import HtmlFields

LEASE_ID_BYTES_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Snapshot(HtmlFields):
    """A bucket as it was at an offset. A cut that a lease pins has neither an `id` nor files of its own.

    `path` is where a reader that goes straight to storage finds it, relative to the data directory. `damaged` says
    why it cannot be read; its offset is -1 then.
    """

    id: int | None
    bucket: TableBucket
    offset: int
    created_ms: int
    bytes: int
    leased_by: tuple[str, ...] = ()
    path: str | None = None
    damaged: str | None = None

    @property
    def created_at(self) -> datetime:
        """Return when it was taken."""
        return datetime.fromtimestamp(self.created_ms / 1000, UTC)


@dataclass(frozen=True, slots=True)
class CutOffsets:
    """One offset for each bucket of a table."""

    table_id: int
    offsets: Mapping[TableBucket, int]


@dataclass(frozen=True, slots=True)
class AcquireLease:
    """Ask for a lease, or for more under one that is held.

    `latest` names tables whose newest snapshots are wanted, `snapshots` numbered ones.
    """

    lease_id: str
    duration_ms: int
    latest: tuple[int, ...] = ()
    snapshots: Mapping[TableBucket, int] = field(default_factory=dict)
    cuts: tuple[CutOffsets, ...] = ()


@dataclass(frozen=True, slots=True)
class Leased:
    """A bucket under a lease, readable from `base` on.

    The table id tells a dropped table from a new one of the same name.
    """

    table_id: int
    snapshot: Snapshot
    base: int


@dataclass(frozen=True, slots=True)
class LeaseTime:
    """How long a lease lasts, and until when."""

    duration_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class LeaseInfo(HtmlFields):
    """A lease. `unavailable` says, in the answer to an acquire, what could not be had, and why.

    `schemas` has the schema, by table id, that a table had then and has no more: readers under the lease keep its
    columns.
    """

    lease_id: str
    owner: str
    duration_ms: int
    expires_ms: int
    leased: Sequence[Leased]
    unavailable: Mapping[TableBucket, str] = field(default_factory=dict)
    schemas: Mapping[int, int] | None = None

    @property
    def expires_at(self) -> datetime:
        """Return when it ends unless it is renewed."""
        return datetime.fromtimestamp(self.expires_ms / 1000, UTC)

    @property
    def snapshots(self) -> dict[TableBucket, Snapshot]:
        """Return what is held, by bucket."""
        return {leased.snapshot.bucket: leased.snapshot for leased in self.leased}


def check_lease_id(lease_id: str) -> str:
    """Return the id.

    Raises:
        InvalidError: it is empty or not printable.
        LimitError: it is too long.
    """
    if not isinstance(lease_id, str) or not lease_id or not lease_id.isprintable():
        raise InvalidError("a lease id is a printable word", lease_id=ascii(lease_id)[:80])
    if len(lease_id.encode()) > LEASE_ID_BYTES_MAX:
        raise LimitError("the lease id is too long", bytes=len(lease_id.encode()), max=LEASE_ID_BYTES_MAX)
    return lease_id
