"""Count the sectors of a log batch that are zero.

A disk writes a sector whole or not at all; one that was lost reads as zeros, and so does one of rows that are zeros.
Those that have a part of the batch's header or its end mark never are: only whole sectors between them are counted.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SECTOR_BYTES: Final = 512
"""The smallest unit that a disk writes whole or not at all."""

_WORDS: Final = SECTOR_BYTES // 8
_NO_WORDS: Final = np.empty((0, _WORDS), "<u8")


def zero_sectors(body: bytes | memoryview | pa.Buffer, position: int) -> int:
    """Return how many whole sectors of a body, which starts at `position` of its file, are zero."""
    if len(body) < SECTOR_BYTES:
        return 0
    return len(places_of_zero_sectors(body, position))


def places_of_zero_sectors(body: bytes | memoryview | pa.Buffer, position: int) -> npt.NDArray[np.intp]:
    """Return where in the body its zero sectors begin."""
    if len(body) % 8:
        body = bytes(body) + bytes(-len(body) % 8)  # the padding that follows it
    start = -position % SECTOR_BYTES
    count = max(0, (len(body) - start) // SECTOR_BYTES)
    words = np.frombuffer(body, "<u8", count * _WORDS, start).reshape(count, _WORDS) if count else _NO_WORDS
    # Of most sectors one word tells.
    likely = np.flatnonzero(words[:, 0] == 0)
    if len(likely):
        likely = likely[~words[likely].any(axis=1)]
    return start + likely * SECTOR_BYTES
