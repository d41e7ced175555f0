"""How large a page is: by the bytes that its rows really take in Arrow's memory."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa


def size_of(batch: pa.RecordBatch, rows: int) -> int:
    """Return the bytes of the first rows, with the bitmaps that they get when joined to rows with nulls."""
    bare = sum(column.buffers()[0] is None for column in batch.columns)
    return int(batch.slice(0, rows).nbytes) + bare * ((rows + 7) // 8)


def fitting(size_at: Callable[[int], int], count: int, room: int, *, least: int) -> tuple[int, int]:
    """Return how many of `count` things fit into `room` bytes, and their size; at least `least`, if there are."""
    size = size_at(count)
    if size <= room or count <= least:
        return count, size
    low, low_size, high = least, size_at(least), count
    while high - low > 1:
        middle = (low + high) // 2
        size = size_at(middle)
        if size <= room:
            low, low_size = middle, size
        else:
            high = middle
    return low, low_size
