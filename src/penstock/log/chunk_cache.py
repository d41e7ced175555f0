"""Decoded columns of blocks, kept for readers that come back: who picks single rows, who polls a small table.

Scans take only room that is not used: one big scan would push out what lookups come back to.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import pyarrow as pa

ChunkKey = tuple[str, int, str]
"""Path, block, column."""


class ChunkCache:
    """The most recently used chunks, up to a number of bytes. Thread-safe by one lock."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._arrays: OrderedDict[ChunkKey, tuple[pa.Array, int]] = OrderedDict()
        self._of_path: dict[str, set[ChunkKey]] = {}
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """Return the size of everything kept."""
        return self._bytes

    @property
    def count(self) -> int:
        """Return the number of chunks kept."""
        return len(self._arrays)

    def get(self, key: ChunkKey) -> pa.Array | None:
        """Return a chunk if it is kept."""
        with self._lock:
            found = self._arrays.get(key)
            if found is None:
                return None
            self._arrays.move_to_end(key)
            return found[0]

    def has_room(self, size: int) -> bool:
        """Tell whether so many bytes can be kept without dropping others; half of the room is for single rows."""
        return self._bytes + size <= self._max_bytes // 2

    def put(self, key: ChunkKey, array: pa.Array) -> None:
        """Keep a chunk, at the cost of those not used for longest; one that is too large is not kept."""
        size = array.get_total_buffer_size()
        if size > self._max_bytes:
            return
        with self._lock:
            if key in self._arrays:
                return
            self._arrays[key] = (array, size)
            self._of_path.setdefault(key[0], set()).add(key)
            self._bytes += size
            while self._bytes > self._max_bytes:
                self._remove(next(iter(self._arrays)))

    def drop(self, path: str) -> None:
        """Forget the chunks of a file."""
        with self._lock:
            for key in list(self._of_path.get(path, ())):
                self._remove(key)

    def drop_under(self, directory: str) -> None:
        """Forget the chunks of all files below a directory."""
        with self._lock:
            paths = [path for path in self._of_path if path.startswith(f"{directory}/")]
        for path in paths:
            self.drop(path)

    def _remove(self, key: ChunkKey) -> None:
        _, size = self._arrays.pop(key)
        self._bytes -= size
        keys = self._of_path[key[0]]
        keys.remove(key)
        if not keys:
            del self._of_path[key[0]]
