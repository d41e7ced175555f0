"""The facts of one log batch: what its header says besides position and checksum."""

from __future__ import annotations

from typing import NamedTuple

from penstock.model.place.change import BatchKind

NO_ID = bytes(16)
"""The writer or attempt of a batch that has none."""


class BatchFacts(NamedTuple):
    """Who wrote a batch, when, as what.

    `columns` are the ids of the columns that the writer named; None means all of them.
    Owner, fence and epoch are -1 where no owner wrote.
    """

    base_offset: int
    rows: int
    timestamp_ms: int
    term: int
    schema_id: int
    kind: BatchKind = BatchKind.DATA
    writer_id: bytes = NO_ID
    sequence: int = -1
    owner: int = -1
    fence: int = -1
    epoch: int = -1
    attempt: bytes = NO_ID
    columns: tuple[int, ...] | None = None

    @property
    def end_offset(self) -> int:
        """Return the offset after the batch's last row."""
        return self.base_offset + self.rows
