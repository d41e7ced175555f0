"""The last of a disk's space: kept for what makes room, and for the next start.

Writes are refused while less than a floor is free, so that manifests, metadata and the key index, which are written
whether or not calls come, do not meet the very end of the disk. Others may fill it all the same. So a file holds a
little space that a drop, a truncation or a start is given when there is no other.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import DiskFullError
from penstock.model.words.quantity import format_bytes
from penstock.runtime.disk import Disk

RESERVE: Final = "reserve"
_RESERVE_BYTES_MAX: Final = 4 << 20
_RESERVE_SHARE: Final = 32
_FLOOR_BYTES_MAX: Final = 64 << 20
_FLOOR_SHARE: Final = 16


class DiskRoom:
    """Knows how much of a disk may be written, and holds the reserve. Thread-safe: keeps nothing but the disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def check(self, size: int) -> None:
        """Refuse a write of so many bytes that would leave less free than the floor.

        Raises:
            DiskFullError: it would; nothing was written.
        """
        free, total = self._disk.space()
        floor = min(_FLOOR_BYTES_MAX, total // _FLOOR_SHARE)
        if free - size < floor:
            raise DiskFullError(
                "no space left but what is kept for drops and starts; free some and write again",
                free=format_bytes(free),
                kept_free=format_bytes(floor),
                size=format_bytes(size),
            )

    def give_up(self) -> None:
        """Give up the reserve if there is hardly any other space: what is done next makes room, or is a start.

        Raises:
            OSError: as the disk gave it.
        """
        free, total = self._disk.space()
        if free < _reserve_bytes(total) and self._disk.exists(RESERVE):
            self._disk.remove(RESERVE)

    def keep(self) -> None:
        """Make the reserve, or make it again, if that leaves the floor free.

        Raises:
            OSError: as the disk gave it.
        """
        free, total = self._disk.space()
        wanted = _reserve_bytes(total)
        if self._disk.exists(RESERVE):
            if self._disk.size(RESERVE) >= wanted:
                return
            self._disk.remove(RESERVE)
        if free - wanted < min(_FLOOR_BYTES_MAX, total // _FLOOR_SHARE):
            return
        file = self._disk.create(RESERVE)
        try:
            file.preallocate(wanted)
        finally:
            file.close()


def _reserve_bytes(total: int) -> int:
    return min(_RESERVE_BYTES_MAX, total // _RESERVE_SHARE)
