"""The size of a page: by the bytes that its rows really take in Arrow's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

SLACK_PARTS: Final = 32
"""A page is full when less than one such part of its room is left: looking further costs more than it gains."""


class BatchSize:
    """The size of the first rows of a batch."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        # Joined to rows with nulls, a column without a bitmap gets one.
        self._bare = sum(column.buffers()[0] is None for column in batch.columns)

    def __call__(self, rows: int) -> int:
        """Return how many bytes the first rows take at most, alone or joined to others."""
        return int(self._batch.slice(0, rows).nbytes) + self._bare * ((rows + 7) // 8)


def fitting(size_at: Callable[[int], int], count: int, room: int, *, least: int) -> tuple[int, int]:
    """Return how many of `count` things fit into `room` bytes, and their size; at least `least`, if there are."""
    size = size_at(count)
    if size <= room or count <= least:
        return count, size
    low, low_size, high, high_size = least, size_at(least), count, size
    halve = False
    while high - low > 1 and (room - low_size) * SLACK_PARTS > room:
        # Rows are mostly alike, so a guess by proportion is near; halving in turn bounds the steps if they are not.
        step = (high - low) // 2 if halve else (room - low_size) * (high - low) // (high_size - low_size)
        middle = low + min(max(step, 1), high - low - 1)
        size = size_at(middle)
        if size <= room:
            low, low_size = middle, size
        else:
            high, high_size = middle, size
        halve = not halve
    return low, low_size
