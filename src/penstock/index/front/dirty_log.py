"""The log of dirty keys, applied in memory and not in the index below yet, in the order of the calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.codec.keys.byte_rows import held_bytes_of
from penstock.codec.keys.key_sort import sort_keys
from penstock.index.key_index import Offsets

_FEW_ROWS: Final = 1_024
_FEW_CHUNKS_MAX: Final = 64
_ROW_BYTES: Final = 12
"""An offset, and where the key ends, for each key."""


@dataclass(frozen=True, slots=True)
class DirtyChunk:
    """Keys and offsets of one call or several; `applied` is that of the last."""

    keys: pa.BinaryArray
    offsets: Offsets
    applied: int


def latest(keys: pa.BinaryArray, offsets: Offsets) -> tuple[pa.BinaryArray, Offsets]:
    """Return each key once, in key order, with the last of its offsets."""
    ordered = sort_keys(keys)
    # A key's last entry is the one before the next key's start. The sort is stable, so that is the newest; the slice
    # makes this right for no keys at all.
    last = np.append(ordered.starts[1:], True)[: len(offsets)]
    return ordered.where(last), offsets[ordered.order[last]]


def join_chunks(chunks: Sequence[DirtyChunk]) -> DirtyChunk:
    """Return the chunks as one; there is at least one."""
    if len(chunks) == 1:
        return chunks[0]
    keys = pa.concat_arrays([chunk.keys for chunk in chunks])
    return DirtyChunk(keys, np.concatenate([chunk.offsets for chunk in chunks]), chunks[-1].applied)


class DirtyLog:
    """Chunks that wait, and those that were taken and are being written. One thread at a time."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._waiting: list[DirtyChunk] = []
        self._few: list[DirtyChunk] = []
        self._taken: list[DirtyChunk] = []

    def __bool__(self) -> bool:
        return bool(self._waiting or self._few or self._taken)

    @property
    def rows(self) -> int:
        """Return how many keys it holds, each as often as it was written."""
        return sum(len(chunk.keys) for chunk in self.chunks())

    def append(self, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> int:
        """Add a call and return its bytes; the arrays are kept, so they must not change."""
        # Arrays of a few rows take fifty times the memory of their rows; so they are joined before long.
        self._few.append(DirtyChunk(keys, offsets, applied))
        if len(keys) >= _FEW_ROWS or len(self._few) == _FEW_CHUNKS_MAX:
            self._gather()
        added = _bytes(keys)
        self.nbytes += added
        return added

    def take(self, rows_max: int) -> DirtyChunk | None:
        """Take the oldest calls, up to about so many rows, to be written; None if there are none.

        What was taken before and not written for an error is taken again.
        """
        self._gather()
        count = rows = 0
        for count, chunk in enumerate(self._waiting, start=1):  # noqa: B007 - the count is what is wanted
            rows += len(chunk.keys)
            if rows >= rows_max:
                break
        self._taken += self._waiting[:count]
        self._waiting = self._waiting[count:]
        return join_chunks(self._taken) if self._taken else None

    def written(self) -> int:
        """Forget what was taken, for it is in the index below; return its bytes."""
        gone = sum(_bytes(chunk.keys) for chunk in self._taken)
        self.nbytes -= gone
        self._taken = []
        return gone

    def chunks(self) -> list[DirtyChunk]:
        """Return everything that is not known to be in the index below, oldest first."""
        return [*self._taken, *self._waiting, *self._few]

    def _gather(self) -> None:
        if self._few:
            self._waiting.append(join_chunks(self._few))
            self._few = []


def _bytes(keys: pa.BinaryArray) -> int:
    return held_bytes_of(keys).size + _ROW_BYTES * len(keys)
