"""Tell whether one flipped bit made a sector zero: then it was not lost, but damaged.

A checksum of this kind is linear: what one bit changes in it depends on the bit's place alone. So the difference
between the checksum that was stored and the one of what is there tells, almost surely, whether one bit is missing.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import google_crc32c
import numpy as np
import numpy.typing as npt

from penstock.codec.stored.zero_sectors import SECTOR_BYTES, places_of_zero_sectors

SECTORS_MAX: Final = 64
"""In how many zero sectors a bit is looked for."""


def is_one_bit_short(body: memoryview, position: int, checksum: int, *, behind: memoryview) -> bool:
    """Tell whether a checksum of `body`, at `position` of its file, and of `behind` fits with one more bit set.

    The bit is looked for in those sectors of the body that are zero.
    """
    found = google_crc32c.extend(google_crc32c.value(bytes(body)), bytes(behind))
    missing = checksum ^ found
    places = places_of_zero_sectors(body, position)[:SECTORS_MAX]
    length = len(body) + len(behind)
    return any(missing in _carried(_one_bit(), length - int(place) - SECTOR_BYTES) for place in places)


@cache
def _one_bit() -> npt.NDArray[np.uint32]:
    """Return what each bit of a sector changes in the checksum at the sector's end."""
    zero = google_crc32c.value(bytes(SECTOR_BYTES))
    changes = []
    for place in range(SECTOR_BYTES):
        for bit in range(8):
            sector = bytearray(SECTOR_BYTES)
            sector[place] = 1 << bit
            changes.append(google_crc32c.value(bytes(sector)) ^ zero)
    return np.array(changes, np.uint32)


def _carried(changes: npt.NDArray[np.uint32], count: int) -> npt.NDArray[np.uint32]:
    """Return what changes of a checksum become `count` bytes later."""
    behind = bytes(count)
    zero = google_crc32c.extend(0, behind)
    carried = np.zeros(len(changes), np.uint32)
    for bit in range(32):
        one = np.uint32(google_crc32c.extend(1 << bit, behind) ^ zero)
        carried ^= np.where(changes >> bit & 1, one, np.uint32(0)).astype(np.uint32)
    return carried
