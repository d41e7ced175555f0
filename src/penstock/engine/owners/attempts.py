"""Attempts of an epoch: what each wrote, and whether an epoch may be committed with those named."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.engine.commit.group import OwnerStamp
from penstock.errors import ConflictError
from penstock.model.place.bucket import TableBucket
from penstock.model.place.facts import NO_ID
from penstock.tablet.state.owner_state import AttemptRun

Attempts = Mapping[bytes, int | None]
"""The attempts that a commit accepts, with the rows each wrote, None where the caller does not say."""


@dataclass(slots=True)
class _Count:
    rows: int = 0
    calls: set[tuple[bytes, int]] = field(default_factory=set)


class AttemptCounts:
    """The number of rows that each attempt wrote since the table was opened. Thread-safe by one lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[OwnerStamp, _Count] = {}
        self._beaten: dict[OwnerStamp, bytes] = {}
        self._doubted: set[bytes] = set()

    def doubt(self, attempt: bytes) -> None:
        """Remember that an attempt wrote rows which were not counted: the table was opened since."""
        with self._lock:
            self._doubted.add(attempt)

    def lose(self, stamp: OwnerStamp, winner: bytes) -> None:
        """Remember that another attempt had ended where this one wrote."""
        with self._lock:
            self._beaten[stamp] = winner

    def winner(self, stamp: OwnerStamp) -> bytes | None:
        """Return the attempt that ended before this one; None if none did."""
        with self._lock:
            return self._beaten.get(stamp)

    def add(self, stamp: OwnerStamp, rows: int, writer_id: bytes, sequence: int) -> None:
        """Count the rows of a call; a call that was made again counts once."""
        with self._lock:
            count = self._counts.setdefault(stamp, _Count())
            if writer_id == NO_ID or (writer_id, sequence) not in count.calls:
                count.calls.add((writer_id, sequence))
                count.rows += rows

    def rows(self, stamp: OwnerStamp) -> int | None:
        """Return the rows of an attempt; None if not all of them were counted."""
        with self._lock:
            if stamp.attempt in self._doubted:
                return None
            count = self._counts.get(stamp)
            return 0 if count is None else count.rows

    def forget(self, owner: int) -> None:
        """Forget the attempts of an owner."""
        with self._lock:
            self._counts = {stamp: count for stamp, count in self._counts.items() if stamp.owner != owner}
            self._beaten = {stamp: winner for stamp, winner in self._beaten.items() if stamp.owner != owner}


def check_attempts(
    runs: Iterable[tuple[TableBucket, AttemptRun]], staged: Mapping[bytes, int], named: Attempts | None
) -> None:
    """Refuse to commit an epoch of which something is missing.

    Raises:
        ConflictError: names what is missing.
    """
    written = [(bucket, run) for bucket, run in runs if run.opened]
    open_buckets = [bucket for bucket, run in written if run.ended is None]
    if open_buckets:
        raise ConflictError(
            "an attempt has not ended everywhere it wrote; let it end, or begin the epoch again", buckets=open_buckets
        )
    if named is None:
        if staged:
            raise ConflictError(
                "rows are staged in this epoch; name the attempts to accept: commit(epoch, attempts=[...])",
                attempts=[attempt.hex() for attempt in staged],
            )
        return
    ended = {run.ended: run.ended_rows for _, run in written if run.ended is not None}
    strangers = [attempt.hex() for attempt in ended if attempt not in named]
    if strangers:
        raise ConflictError("attempts that are not named ended first; name those that won", attempts=strangers)
    for attempt, rows in named.items():
        there = ended.get(attempt, 0) + staged.get(attempt, 0)
        known = attempt in ended or attempt in staged
        if not known if rows is None else rows != there:
            raise ConflictError(
                "rows of an attempt are missing; begin the epoch again",
                attempt=attempt.hex(),
                rows=there,
                named=rows,
            )
