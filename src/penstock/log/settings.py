"""Settings of the log: how it lays out its files, and how much it keeps open and in memory."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import InvalidError


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Sizes of the log room."""

    block_rows: int = 32_768
    open_files_max: int = 512
    open_segments_max: int = 512
    cache_bytes_max: int = 256 << 20

    def __post_init__(self) -> None:
        for name, least, most in (
            ("block_rows", 1, 1 << 24),
            ("open_files_max", 1, 1 << 20),
            ("open_segments_max", 1, 1 << 20),
            ("cache_bytes_max", 0, 1 << 40),
        ):
            if not least <= getattr(self, name) <= most:
                raise InvalidError(
                    "setting is out of range", setting=name, value=getattr(self, name), least=least, most=most
                )
