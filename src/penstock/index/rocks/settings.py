"""Settings of the RocksDB index. The defaults were measured: docs/internals/key-index.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.errors import InvalidError

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30

_RANGES: Final = {
    "memtable_bytes": (64 * _KIB, _GIB),
    "memtables_max": (2, 64),
    "block_cache_bytes": (_MIB, 1024 * _GIB),
    "block_bytes": (_KIB, _MIB),
    "bloom_bits_per_key": (1, 32),
    "open_files_max": (64, 1 << 20),
    "background_jobs": (1, 64),
    "apply_chunk_keys": (1, 100_000),
    "get_chunk_keys": (1, 100_000),
    "run_keys_min": (1, 1 << 40),
    "run_file_keys": (1, 1 << 40),
    "run_chunk_keys": (1, 100_000),
    "run_pause_us": (0, 1_000_000),
}


@dataclass(frozen=True, slots=True)
class RocksIndexSettings:
    """Sizes of one RocksDB instance; memory is about memtable_bytes * memtables_max + block_cache_bytes.

    Bloom filters and block indexes of open files come on top, little more than `bloom_bits_per_key`:
    kept in the block cache, a filter larger than a shard of the cache would be read again and again.
    A run of at least `run_keys_min` keys is taken in as files of `run_file_keys`; between `run_chunk_keys`,
    well under a millisecond of work, there is a pause for other threads.
    """

    memtable_bytes: int = 16 * _MIB
    memtables_max: int = 8
    block_cache_bytes: int = 128 * _MIB
    block_bytes: int = 8 * _KIB
    bloom_bits_per_key: int = 10
    open_files_max: int = 512
    background_jobs: int = 2
    apply_chunk_keys: int = 2_000
    get_chunk_keys: int = 1_000
    run_keys_min: int = 20_000
    run_file_keys: int = 100_000
    run_chunk_keys: int = 2_000
    run_pause_us: int = 200

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidError("index setting is out of range", setting=name, value=value, low=low, high=high)
