"""An owner in memory: its record, when its time is up, where it has uncommitted changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.engine.owners.record import OwnerRecord
from penstock.model.place.bucket import BucketId
from penstock.tablet.view.pins import PinHolder, PinKind

Columns = tuple[int, ...] | None
"""Ids of columns; None for all of them."""


@dataclass(slots=True)
class LiveOwner:
    """One owner of an open table. Changed only in the committer.

    `pending` has, for each bucket with uncommitted changes, the offset at or below the first of them; `reach` a
    lower one, where others' changes before it were undone since: to undo this owner's, they must be known.
    """

    record: OwnerRecord
    version: int
    expires_ms: int
    seen_ms: int
    pending: dict[BucketId, int] = field(default_factory=dict)
    reach: dict[BucketId, int] = field(default_factory=dict)

    @property
    def pin_holder(self) -> PinHolder:
        """Return what the owner's pins are held by."""
        return PinHolder(PinKind.OWNER, str(self.record.number))

    @property
    def keeps(self) -> bool:
        """Tell whether the columns are still its own, expired or not."""
        return not (self.record.lost or self.record.released)

    def holds(self, now_ms: int) -> bool:
        """Tell whether it excludes others now."""
        return self.keeps and now_ms < self.expires_ms

    def touch(self, now_ms: int) -> None:
        """Take a sign of life; it never shortens the time that remains, as after a restart."""
        self.seen_ms = now_ms
        self.expires_ms = max(self.expires_ms, now_ms + self.record.ttl_ms)

    def shares(self, columns: Columns) -> bool:
        """Tell whether any of these columns is among its own."""
        return overlap(self.record.columns, columns)


def overlap(these: Columns, those: Columns) -> bool:
    """Tell whether two sets of columns have one in common."""
    if these is None or those is None:
        return True
    return not set(these).isdisjoint(those)


def outside(columns: tuple[int, ...], held: Columns) -> list[int]:
    """Return which of these columns are not held."""
    return [] if held is None else sorted(set(columns) - set(held))
