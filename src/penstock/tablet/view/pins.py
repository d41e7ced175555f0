"""Pins: integers that the base may not pass.

A pin and a move of the base are decided under one lock, so that there is no moment in which a
reader holds an offset that compaction believes free.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from penstock.errors import OffsetOutOfRangeError
from penstock.model.place.change import OFFSET_MAX


class PinKind(StrEnum):
    """The kind of what holds a pin. The words are part of what `stats()` shows."""

    SCANNER = "scanner"
    CUT = "cut"
    READER = "reader"
    LEASE = "lease"
    ACQUIRING = "acquiring"
    OWNER = "owner"
    SNAPSHOT = "snapshot"
    SNAPSHOTTING = "snapshotting"
    GRACE = "grace"


class PinHolder(NamedTuple):
    """The holder of a pin: its kind, and its id where there may be several of the kind."""

    kind: PinKind
    id: str = ""

    def __str__(self) -> str:
        return f"{self.kind}-{self.id}" if self.id else str(self.kind)


class Pins:
    """The pins of one bucket, by holder, and the base they hold back. Thread-safe by one lock."""

    def __init__(self, base: int) -> None:
        self._lock = threading.Lock()
        self._pins: dict[PinHolder, int] = {}
        self._base = base

    @property
    def base(self) -> int:
        """Return the oldest offset at which a snapshot can be read."""
        return self._base

    def pin(self, holder: PinHolder, offset: int, *, least: int | None = None) -> None:
        """Hold the base at or below `offset`; the same holder again moves its pin.

        Below the base of a log that was truncated only who was there before may stand: a pin may move on there,
        and one that is set again after a restart names by `least` what is there.

        Raises:
            OffsetOutOfRangeError: the base is beyond the offset already.
        """
        with self._lock:
            allowed = min(self._base, self._pins.get(holder, self._base), self._base if least is None else least)
            if offset < allowed:
                raise OffsetOutOfRangeError(
                    "offset is below the base: what it needs was compacted away, or dropped with its partition;"
                    " start from the base or a new scan",
                    offset=offset,
                    base=self._base,
                )
            self._pins[holder] = offset

    def unpin(self, holder: PinHolder) -> bool:
        """Let go; idempotent. True if the pin was the lowest, so that space may be free now."""
        with self._lock:
            offset = self._pins.pop(holder, OFFSET_MAX)
            return offset < min(self._pins.values(), default=OFFSET_MAX)

    def advance(self, target: int) -> int:
        """Move the base towards `target`, as far as the pins allow; return it."""
        with self._lock:
            self._base = max(self._base, min(target, *self._pins.values(), target))
            return self._base

    def truncate(self, target: int) -> int:
        """Move the base to `target`, whatever pins are below it; return it. What they hold must stay."""
        with self._lock:
            self._base = max(self._base, target)
            return self._base

    def floor(self) -> int:
        """Return the lowest pin, OFFSET_MAX without one."""
        with self._lock:
            return min(self._pins.values(), default=OFFSET_MAX)

    def snapshot(self) -> Mapping[PinHolder, int]:
        """Return a copy of all pins."""
        with self._lock:
            return dict(self._pins)
