"""Settings of the front of the key index. The defaults were measured: docs/internals/key-index.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.errors import InvalidError

_MIB: Final = 1 << 20

_RANGES: Final = {
    "table_bytes_max": (0, 1 << 40),
    "dirty_bytes_max": (0, 1 << 34),
    "drain_rows_max": (1, 1 << 24),
}


@dataclass(frozen=True, slots=True)
class FrontSettings:
    """Sizes of the front, over all buckets; memory is about table_bytes_max + 2 * dirty_bytes_max at most.

    A writer that meets a fuller log of dirty keys first writes `drain_rows_max` of them itself.
    """

    table_bytes_max: int = 256 * _MIB
    dirty_bytes_max: int = 128 * _MIB
    drain_rows_max: int = 50_000

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidError("front setting is out of range", setting=name, value=value, low=low, high=high)
