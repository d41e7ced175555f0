"""Read a data file: rows in large aligned blocks, written once, read lazily.

A chunk is checked against its checksum whenever it comes from the disk, and in full, value by value,
the first time. Two columns cost two chunks per block; chunks that lie side by side are read at once.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from hashlib import blake2b

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.stored.framed import unframe
from penstock.errors import CorruptionError
from penstock.log.batch_directory import BatchDirectory
from penstock.log.chunk_cache import ChunkCache
from penstock.log.data_file_footer import (
    HEAD_BYTES,
    MAGIC,
    TRAIL_BYTES,
    VERSION,
    DataFileInfo,
    Footer,
    decode_footer,
    footer_length,
)
from penstock.log.data_file_writer import write_data_file
from penstock.log.file_pool import FilePool
from penstock.log.row_run import Int64s, dense_rows, gather
from penstock.model.place.change import OFFSET

__all__ = ["DataFile", "DataFileInfo", "write_data_file"]


class DataFile:
    """A sealed file of rows. Immutable and thread-safe; a `RowRun`."""

    def __init__(self, files: FilePool, path: str, cache: ChunkCache) -> None:
        """Open a file: reads its footer, no rows.

        Raises:
            CorruptionError: head or footer are damaged.
            UnsupportedError: the file was written by a newer version.
            OSError: as the disk gave it.
        """
        self._files = files
        self._path = path
        self._cache = cache
        self._footer = _read_footer(files, path)
        stored = self._footer.schema
        self._field_schemas = [pa.schema([field]) for field in stored]
        self._places = {name: i for i, name in enumerate(stored.names)}
        self._schema = stored if self.dense else stored.remove(len(stored) - 1)
        self._block_starts = np.concatenate(([0], np.cumsum(self._footer.block_rows))).astype(np.int64)
        self._validated = np.zeros(self._footer.chunk_bytes.shape, dtype=bool)
        self._relative: npt.NDArray[np.uint32] | npt.NDArray[np.uint64] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"DataFile({self._path}, start={self.start}, end={self.end}, rows={self.rows})"

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return self._path

    @property
    def info(self) -> DataFileInfo:
        """Return what the file holds."""
        return self._footer.info

    @property
    def start(self) -> int:
        """Return the first offset that the file covers."""
        return self._footer.info.start

    @property
    def end(self) -> int:
        """Return the offset after the last one that the file covers."""
        return self._footer.info.end

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self._footer.info.rows

    @property
    def dense(self) -> bool:
        """Tell whether every offset covered has a row."""
        return self._footer.info.dense

    @property
    def schema_id(self) -> int:
        """Return the id of the schema that the rows were written in."""
        return self._footer.info.schema_id

    @property
    def schema(self) -> pa.Schema:
        """Return the storage schema, without `_offset`."""
        return self._schema

    @property
    def directory(self) -> BatchDirectory:
        """Return the facts of the batches that the rows came in."""
        return self._footer.directory

    @property
    def block_count(self) -> int:
        """Return the number of blocks."""
        return len(self._footer.block_rows)

    @property
    def block_starts(self) -> Int64s:
        """Return the first row of each block, and the number of rows at the end."""
        return self._block_starts

    @property
    def block_min_offset(self) -> Int64s:
        """Return the offset of each block's first row."""
        return self._footer.block_min_offset

    @property
    def block_max_offset(self) -> Int64s:
        """Return the offset of each block's last row."""
        return self._footer.block_max_offset

    def block_rows(self, i: int) -> int:
        """Return the number of rows in block `i`."""
        return int(self._footer.block_rows[i])

    def has_column(self, name: str) -> bool:
        """Tell whether the file stores a column."""
        return name in self._places

    def read_block(self, i: int, columns: Sequence[str], *, use_cache: bool = False) -> list[pa.Array]:
        """Return columns of a block; `use_cache` keeps them for readers to come, who else reads only if there is room.

        Raises:
            CorruptionError: stored bytes are damaged; names file, column and block.
            OSError: as the disk gave it.
        """
        found = {name: self._cache.get((self._path, i, name)) for name in columns}
        missing = [name for name, array in found.items() if array is None]
        kept = bool(missing) and (use_cache or self._cache.has_room(self._bytes_of(i, missing)))
        for run in self._side_by_side(missing, apart=kept):
            for name, array in self._read_run(i, run):
                found[name] = array
                if kept:
                    self._cache.put((self._path, i, name), array)
        return [found[name] for name in columns]

    def offsets_of_block(self, i: int) -> Int64s:
        """Return the offset of each row of a block."""
        first, last = self._block_starts[i], self._block_starts[i + 1]
        if self.dense:
            return np.arange(self.start + first, self.start + last, dtype=np.int64)
        return self._relative_offsets()[first:last].astype(np.int64) + self.info.min_offset

    def offset_array(self) -> Int64s:
        """Return the offset of each row of the file."""
        if self.dense:
            return np.arange(self.start, self.end, dtype=np.int64)
        return self._relative_offsets().astype(np.int64) + self.info.min_offset

    def row_of(self, offsets: Int64s) -> Int64s:
        """Return the row of each offset, -1 where the file has none."""
        if self.dense:
            return dense_rows(offsets, start=self.start, end=self.end)
        relative = self._relative_offsets()
        if not len(relative):
            return np.full(len(offsets), -1, dtype=np.int64)
        inside = (offsets >= self.info.min_offset) & (offsets <= self.info.max_offset)
        wanted = np.where(inside, offsets - self.info.min_offset, 0).astype(relative.dtype)
        rows = np.searchsorted(relative, wanted)
        return np.where(inside & (relative[rows] == wanted), rows, -1)

    def take(self, rows: Int64s, columns: Sequence[str]) -> list[pa.Array]:
        """Return columns of the given rows, in the given order.

        Raises:
            CorruptionError: stored bytes are damaged; names file, column and block.
            OSError: as the disk gave it.
        """
        types = [self._footer.schema.field(name).type for name in columns]
        return gather(rows, self._block_starts, types, lambda block: self.read_block(block, columns, use_cache=True))

    def fingerprint(self) -> str:
        """Return what tells the file from any other: its footer has the checksum of every chunk, and so this of all.

        Raises:
            CorruptionError: the footer is damaged since it was read.
            OSError: as the disk gave it.
        """
        return blake2b(_footer_bytes(self._files, self._path), digest_size=16).hexdigest()

    def close(self) -> None:
        """Let go of the open file and of cached chunks; idempotent. The file itself stays."""
        self._files.drop(self._path)
        self._cache.drop(self._path)

    def _bytes_of(self, block: int, names: Sequence[str]) -> int:
        return int(sum(self._footer.chunk_bytes[block, self._places[name]] for name in names))

    def _side_by_side(self, names: Sequence[str], *, apart: bool) -> list[list[str]]:
        """Group columns whose chunks can be read at once.

        Chunks that are to be kept are read apart: each would hold on to the bytes of all.
        """
        runs: list[list[str]] = []
        for name in sorted(names, key=self._places.__getitem__):
            if runs and not apart and self._places[name] == self._places[runs[-1][-1]] + 1:
                runs[-1].append(name)
            else:
                runs.append([name])
        return runs

    def _read_run(self, block: int, names: Sequence[str]) -> list[tuple[str, pa.Array]]:
        first, last = self._places[names[0]], self._places[names[-1]] + 1
        lengths = self._footer.chunk_bytes[block, first:last].tolist()
        data = self._files.pread(self._path, int(self._footer.chunk_position[block, first]), sum(lengths))
        arrays = []
        position = 0
        for name, length in zip(names, lengths, strict=True):
            arrays.append((name, self._decode(block, name, pa.py_buffer(data[position : position + length]))))
            position += length
        return arrays

    def _decode(self, block: int, name: str, chunk: pa.Buffer) -> pa.Array:
        column = self._places[name]
        if google_crc32c.value(chunk) != self._footer.chunk_crc[block, column]:
            raise CorruptionError("data file is damaged; restore it", file=self._path, column=name, block=block)
        try:
            batch = pa.ipc.read_record_batch(chunk, self._field_schemas[column])
            if not self._validated[block, column]:
                batch.validate(full=True)
                self._validated[block, column] = True
        except (pa.ArrowException, OSError) as error:
            raise CorruptionError(
                "chunk of the data file cannot be read", file=self._path, column=name, block=block
            ) from error
        if batch.num_rows != self._footer.block_rows[block]:
            raise CorruptionError(
                "chunk has the wrong number of rows", file=self._path, column=name, block=block, rows=batch.num_rows
            )
        return batch.column(0)

    def _relative_offsets(self) -> npt.NDArray[np.uint32] | npt.NDArray[np.uint64]:
        """Return offsets less the first, in 4 bytes each where that is enough."""
        with self._lock:
            if self._relative is None:
                info = self.info
                small = info.max_offset - info.min_offset < 1 << 32
                blocks = [self._read_run(i, [OFFSET])[0][1] for i in range(self.block_count)]
                stored = [block.to_numpy() - info.min_offset for block in blocks]
                relative = np.concatenate([np.zeros(0, dtype=np.int64), *stored])
                self._relative = relative.astype(np.uint32) if small else relative.astype(np.uint64)
            return self._relative


def _read_footer(files: FilePool, path: str) -> Footer:
    return decode_footer(_footer_bytes(files, path), size_bytes=files.size(path), name=path)


def _footer_bytes(files: FilePool, path: str) -> memoryview:
    size = files.size(path)
    unframe(MAGIC, VERSION, files.pread(path, 0, HEAD_BYTES), name=path)
    length = footer_length(files.pread(path, max(0, size - TRAIL_BYTES), TRAIL_BYTES), name=path)
    position = size - TRAIL_BYTES - length
    if position < HEAD_BYTES:
        raise CorruptionError("data file is cut short; restore it", file=path, bytes=size)
    return files.pread(path, position, length)
