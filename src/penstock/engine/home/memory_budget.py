"""One bound on memory, `memory.max`, divided into named parts.

Each part takes its share, up to what more would not help it: on a large machine they are all at their most. What was
set by hand for a part is taken first, and the others share the rest. The interpreter and the libraries, about 130 MB,
come on top, and so do the ends of changed rows, eight bytes for each row of a file that has some.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.engine.settings import Settings
from penstock.index.front.front_settings import FrontSettings
from penstock.index.rocks.settings import RocksIndexSettings
from penstock.log.settings import LogSettings
from penstock.runtime.machine_memory import machine_memory_bytes
from penstock.runtime.open_files import OpenFileShares

_MB: Final = 1 << 20
_PERCENT: Final = {
    "front": 14,
    "front_dirty": 12,
    "index_memtables": 5,
    "index_blocks": 5,
    "file_blocks": 10,
    "tails": 20,
    "pages": 4,
    "requests": 15,
    "uploads": 15,
}
_MOST: Final = {
    "front": 256 * _MB,
    "front_dirty": 256 * _MB,
    "index_memtables": 128 * _MB,
    "index_blocks": 128 * _MB,
    "file_blocks": 256 * _MB,
    "tails": 512 * _MB,
    "pages": 64 * _MB,
    "requests": 1024 * _MB,
    "uploads": 1024 * _MB,
}
_LEAST: Final = {"requests": 128 * _MB, "uploads": 64 * _MB}
"""What one client with a pipelined writer needs; less would refuse its calls for ever."""

_SEGMENTS_IN_TAILS: Final = 8
_SEGMENT_BYTES_MIN: Final = 4096
_COMPACTED_ROW_BYTES: Final = 64
_FILE_ROWS_MIN: Final = 65_536
_FILE_ROWS_MAX: Final = 4_000_000
_PLACES_MAX: Final = 16
_MEMTABLES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """The bytes that each part of a node may take.

    `front` is keys in front of the index, `front_dirty` those not written to it yet; `index_memtables` and
    `index_blocks` are the index's own; `file_blocks` are blocks of data files that were read; `tails` are rows that
    are in no data file yet; `pages` are read ahead; `requests` and `uploads` are what a server has in flight, and
    calls that arrive in pieces.
    """

    front: int = _MOST["front"]
    front_dirty: int = _MOST["front_dirty"]
    index_memtables: int = _MOST["index_memtables"]
    index_blocks: int = _MOST["index_blocks"]
    file_blocks: int = _MOST["file_blocks"]
    tails: int = _MOST["tails"]
    pages: int = _MOST["pages"]
    requests: int = _MOST["requests"]
    uploads: int = _MOST["uploads"]

    @classmethod
    def of(cls, settings: Settings, machine_bytes: int | None = None) -> MemoryBudget:
        """Divide what the settings allow: without `memory.max`, half of the machine's memory."""
        total = settings.memory_bytes_max
        if total is None:
            total = (machine_memory_bytes() if machine_bytes is None else machine_bytes) // 2
        front = settings.index_front_bytes
        if front is None:
            return cls(**{name: _share(name, total * percent // 100) for name, percent in _PERCENT.items()})
        # Whatever was set by hand: the others need something to work with.
        rest, of = max(total - front, total // 4), 100 - _PERCENT["front"]
        others = {name: percent for name, percent in _PERCENT.items() if name != "front"}
        return cls(front=front, **{name: _share(name, rest * percent // of) for name, percent in others.items()})

    def front_settings(self) -> FrontSettings:
        """Return the sizes of the index's front, which may have twice its dirty keys for a moment."""
        return FrontSettings(table_bytes_max=self.front, dirty_bytes_max=self.front_dirty // 2)

    def index_settings(self, files: OpenFileShares) -> RocksIndexSettings:
        """Return the sizes of the index."""
        return RocksIndexSettings(
            open_files_max=files.index,
            memtable_bytes=max(self.index_memtables // _MEMTABLES, 64 << 10),
            memtables_max=_MEMTABLES,
            block_cache_bytes=max(self.index_blocks, _MB),
        )

    def log_settings(self, files: OpenFileShares) -> LogSettings:
        """Return the sizes of the log."""
        return LogSettings(
            open_files_max=files.readers, open_segments_max=files.segments, cache_bytes_max=self.file_blocks
        )

    def segment_bytes(self, wanted: int) -> int:
        """Return how large a segment may be: several of them are in memory until they are sealed."""
        return min(wanted, max(self.tails // _SEGMENTS_IN_TAILS, _SEGMENT_BYTES_MIN))

    def file_rows(self) -> int:
        """Return how many rows a data file may have: who compacts files needs some integers for each row."""
        return min(_FILE_ROWS_MAX, max(self.tails // _COMPACTED_ROW_BYTES, _FILE_ROWS_MIN))

    def pages_ahead(self, page_bytes: int) -> int:
        """Return how many pages may be read ahead; without any each is read when it is asked for."""
        return min(_PLACES_MAX, self.pages // page_bytes)


def _share(name: str, share: int) -> int:
    return min(_MOST[name], max(_LEAST.get(name, 0), share))
