"""How a bucket writes and keeps its log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from penstock.errors import InvalidError


class FsyncMode(StrEnum):
    """When the log is synced, and so what a crash of the machine can take; a killed process loses nothing."""

    ALWAYS = "always"
    INTERVAL = "interval"
    NEVER = "never"

    @property
    def risk(self) -> str:
        """Return in words what a crash of the machine can take."""
        return _RISKS[self]


_RISKS: Final = {
    FsyncMode.ALWAYS: "nothing that was acknowledged is lost",
    FsyncMode.INTERVAL: "a crash of the machine loses what was acknowledged since the last sync; calls may be in part",
    FsyncMode.NEVER: "a crash of the machine loses what the operating system had not written yet; calls may be in part",
}


@dataclass(frozen=True, slots=True)
class TabletSettings:
    """Sizes and modes of one bucket."""

    segment_bytes: int = 64 << 20
    file_rows_max: int = 4_000_000
    split_live_percent_max: int = 50
    split_rows_min: int = 4_096
    fsync: FsyncMode = FsyncMode.ALWAYS

    def __post_init__(self) -> None:
        if not 4096 <= self.segment_bytes <= 1 << 31:
            raise InvalidError(
                "segment size is out of range", segment_bytes=self.segment_bytes, least=4096, most=1 << 31
            )
