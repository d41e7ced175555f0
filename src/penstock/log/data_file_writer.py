"""Write a data file: rows come in batches of any size, and go out in blocks of one size."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import repeat

import google_crc32c
import numpy as np
import pyarrow as pa

from penstock.log.batch_directory import BatchDirectory
from penstock.log.data_file_footer import ALIGNMENT, HEAD, DataFileInfo, Footer, encode_footer
from penstock.log.row_run import Int64s
from penstock.log.settings import LogSettings
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import NO_OFFSET, OFFSET
from penstock.runtime.disk import AppendFile, Disk


def write_data_file(
    disk: Disk,
    path: str,
    *,
    bucket: BucketId,
    schema_id: int,
    schema: pa.Schema,
    start: int,
    end: int,
    blocks: Iterable[pa.RecordBatch],
    offsets: Iterable[Int64s] | None,
    directory: BatchDirectory,
    settings: LogSettings,
    live_rows: int | None = None,
) -> DataFileInfo:
    """Write rows that cover [start, end) to a new file, durable when this returns.

    `offsets` go with `blocks`, one array each, rising; without them the rows are dense from `start`.
    `live_rows` counts those that are live now; by default all.

    Raises:
        OSError: as the disk gave it; the file is removed as far as the disk allows.
    """
    file = disk.create(path)
    try:
        writer = _BlockWriter(file, schema, sparse=offsets is not None)
        rows = 0
        for block, own in _aligned(blocks, offsets, settings.block_rows):
            first = start + rows
            writer.write(block, np.arange(first, first + block.num_rows) if own is None else own)
            rows += block.num_rows
        assert offsets is not None or rows == end - start
        info = DataFileInfo(
            bucket,
            schema_id=schema_id,
            start=start,
            end=end,
            rows=rows,
            dense=offsets is None,
            live_rows=rows if live_rows is None else live_rows,
            min_offset=NO_OFFSET,
            max_offset=NO_OFFSET,
            size_bytes=0,
        )
        info = writer.finish(info, directory)
        file.sync()
        disk.sync_directory(path.rpartition("/")[0])
    except BaseException:
        # Whatever stopped the writing, the rows' source included: no half file stays behind.
        file.close()
        with contextlib.suppress(OSError):
            disk.remove(path)
        raise
    file.close()
    return info


class _BlockWriter:
    """Writes the chunks of blocks and remembers where they are."""

    def __init__(self, file: AppendFile, schema: pa.Schema, *, sparse: bool) -> None:
        self._file = file
        self._sparse = sparse
        self._schema = schema.append(pa.field(OFFSET, pa.int64(), nullable=False)) if sparse else schema
        self._field_schemas = [pa.schema([field]) for field in self._schema]
        self._blocks: list[tuple[int, int, int]] = []
        self._chunks: list[list[tuple[int, int, int]]] = []
        file.append(HEAD)

    def write(self, block: pa.RecordBatch, offsets: Int64s) -> None:
        columns = [*block.columns, pa.array(offsets)] if self._sparse else block.columns
        position = self._file.size
        places: list[tuple[int, int, int]] = []
        parts: list[bytes | memoryview] = []
        for column, schema in zip(columns, self._field_schemas, strict=True):
            body = pa.RecordBatch.from_arrays([column], schema=schema).serialize()
            fill = bytes(-body.size % ALIGNMENT)
            crc = google_crc32c.extend(google_crc32c.value(body), fill)
            places.append((position, body.size + len(fill), crc))
            parts += [memoryview(body), fill]
            position += body.size + len(fill)
        self._file.append(*parts)
        self._blocks.append((block.num_rows, int(offsets[0]), int(offsets[-1])))
        self._chunks.append(places)

    def finish(self, info: DataFileInfo, directory: BatchDirectory) -> DataFileInfo:
        blocks = np.array(self._blocks, dtype=np.int64).reshape(-1, 3)
        chunks = np.array(self._chunks, dtype=np.int64).reshape(-1, len(self._schema), 3)
        if len(blocks):
            info = replace(info, min_offset=int(blocks[0, 1]), max_offset=int(blocks[-1, 2]))
        footer = Footer(
            info,
            self._schema,
            block_rows=blocks[:, 0],
            block_min_offset=blocks[:, 1],
            block_max_offset=blocks[:, 2],
            chunk_position=chunks[:, :, 0],
            chunk_bytes=chunks[:, :, 1],
            chunk_crc=chunks[:, :, 2],
            directory=directory,
        )
        return replace(info, size_bytes=self._file.append(encode_footer(footer)))


def _aligned(
    batches: Iterable[pa.RecordBatch], offsets: Iterable[Int64s] | None, block_rows: int
) -> Iterator[tuple[pa.RecordBatch, Int64s | None]]:
    """Cut and join batches so that all but the last have `block_rows` rows."""
    sparse = offsets is not None
    waiting: list[tuple[pa.RecordBatch, Int64s]] = []
    waiting_rows = 0
    none = np.zeros(0, dtype=np.int64)
    pairs = zip(batches, offsets, strict=True) if offsets is not None else zip(batches, repeat(none), strict=False)
    for batch, own in pairs:
        first = 0
        while first < batch.num_rows:
            step = min(block_rows - waiting_rows, batch.num_rows - first)
            waiting.append((batch.slice(first, step), own[first : first + step]))
            waiting_rows += step
            first += step
            if waiting_rows == block_rows:
                yield _joined(waiting, sparse=sparse)
                waiting, waiting_rows = [], 0
    if waiting:
        yield _joined(waiting, sparse=sparse)


def _joined(pieces: list[tuple[pa.RecordBatch, Int64s]], *, sparse: bool) -> tuple[pa.RecordBatch, Int64s | None]:
    batch = pieces[0][0] if len(pieces) == 1 else pa.concat_batches([piece for piece, _ in pieces])
    return batch, np.concatenate([own for _, own in pieces]) if sparse else None
