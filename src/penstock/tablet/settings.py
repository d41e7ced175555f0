"""Settings of a bucket: how it writes and keeps its log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.errors import InvalidError


class FsyncMode(StrEnum):
    """The moment of a sync of the log: what a crash of the machine can take; a killed process loses nothing."""

    ALWAYS = "always"
    """Nothing that was acknowledged is lost."""
    INTERVAL = "interval"
    """What was acknowledged since the last sync is lost; of a call a part may be."""
    NEVER = "never"
    """What the operating system had not written yet is lost; of a call a part may be."""


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
