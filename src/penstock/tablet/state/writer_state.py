"""The last batches of each writer, per bucket: how a retried batch is known (I-6).

The last five sequences of a writer are kept with the offsets of their changes. The state is part
of each checkpoint, is brought up to date from the headers of the log after it, and outlives the
base. The number of writers is bounded: the longest silent one is forgotten first.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import Final, NamedTuple

from penstock.errors import SequenceError

SEQUENCES_KEPT: Final = 5
WRITERS_KEPT: Final = 10_000
_RECORD: Final = struct.Struct("<16sqqq")


class Applied(NamedTuple):
    """One batch of a writer that is in the log: changes [start, end)."""

    sequence: int
    start: int
    end: int


class WriterState:
    """The recent batches of every writer of one bucket."""

    def __init__(self, writers_kept: int = WRITERS_KEPT) -> None:
        self._writers_kept = writers_kept
        self._writers: OrderedDict[bytes, tuple[Applied, ...]] = OrderedDict()

    def find(self, writer_id: bytes, sequence: int) -> Applied | None:
        """Return where this batch is, if it was applied before; None if it is new.

        Raises:
            SequenceError: older than what is remembered, so it is not known whether it was applied.
        """
        recent = self._writers.get(writer_id, ())
        for applied in recent:
            if applied.sequence == sequence:
                return applied
        if recent and sequence < recent[-1].sequence:
            raise SequenceError(
                "sequence is older than the last ones remembered; write with a new writer",
                sequence=sequence,
                newest=recent[-1].sequence,
                remembered=len(recent),
            )
        return None

    def record(self, writer_id: bytes, applied: Applied) -> None:
        """Remember a batch that is durable; recording it again changes nothing."""
        recent = self._writers.get(writer_id, ())
        if recent and applied.sequence <= recent[-1].sequence:
            return
        self._writers[writer_id] = (*recent, applied)[-SEQUENCES_KEPT:]
        self._writers.move_to_end(writer_id)
        if len(self._writers) > self._writers_kept:
            self._writers.popitem(last=False)

    def to_bytes(self) -> bytes:
        """Return the state for a checkpoint, oldest writer first."""
        return b"".join(
            _RECORD.pack(writer_id, *applied) for writer_id, recent in self._writers.items() for applied in recent
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> WriterState:
        """Return the state that a checkpoint holds."""
        state = cls()
        for writer_id, sequence, start, end in _RECORD.iter_unpack(data):
            state.record(writer_id, Applied(sequence, start, end))
        return state
