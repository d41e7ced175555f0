"""Owners in the calls of a node: what acquires one, what undo did, what is known of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from penstock.model.node.owner_token import NO_EPOCH
from penstock.model.place.bucket import TableBucket
from penstock.model.words.html_fields import HtmlFields


class EpochStatus(StrEnum):
    """What `begin` found: work to do, or nothing."""

    NEW = "new"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class AcquireOwner:
    """Ask to be an owner of columns of a table; None for all of them, and for the server's TTL."""

    table_id: int
    owner: str
    columns: tuple[str, ...] | None = None
    ttl_ms: int | None = None
    incarnation: str | None = None
    holder: str = ""


@dataclass(frozen=True, slots=True)
class OwnerGrant:
    """What an acquisition gave: the handle's token, and where the owner stands."""

    token: bytes
    ttl_ms: int
    columns: tuple[str, ...]
    committed_epoch: int = NO_EPOCH
    open_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class EpochBegun:
    """The answer to `begin`: the fence is the one to write the epoch under."""

    status: EpochStatus
    fence: int


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """The answer to an attempt's end: who won, with how many rows; `done` if it was another that ended first."""

    attempt: bytes
    rows: int
    done: bool = False


class BucketUndo(NamedTuple):
    """What undo did in one bucket: keys put back, rows that went, keys left as others wrote them since."""

    keys: int
    rows_removed: int
    superseded: int


@dataclass(frozen=True, slots=True)
class UndoResult(HtmlFields):
    """What undo did: totals, and each bucket in which it did anything."""

    keys: int = 0
    rows_removed: int = 0
    superseded: int = 0
    buckets: Mapping[TableBucket, BucketUndo] = field(default_factory=dict)

    @classmethod
    def of(cls, buckets: Mapping[TableBucket, BucketUndo]) -> UndoResult:
        """Return the result with its totals."""
        counts = list(buckets.values())
        return cls(
            keys=sum(count.keys for count in counts),
            rows_removed=sum(count.rows_removed for count in counts),
            superseded=sum(count.superseded for count in counts),
            buckets=dict(buckets),
        )


@dataclass(frozen=True, slots=True)
class OwnerInfo(HtmlFields):
    """An owner, as `list_owners` shows it. Expired, or given up: `expires_in_ms` is 0 and `held` False."""

    table: str
    owner: str
    columns: tuple[str, ...]
    fence: int
    incarnation: str | None
    committed_epoch: int
    open_epoch: int | None
    rows_pending: int
    holder: str
    held: bool
    expires_in_ms: int
