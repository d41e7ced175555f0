"""The bytes of a data file that are not rows.

head (64 bytes) | chunks, block by block, column by column | footer (framed) | trail (16 bytes)

A chunk is the IPC message of one column of one block, filled up with zeros to a multiple of 64. The
footer says where each chunk is and what its checksum (fill included) is. The trail says how long
the footer is. Head, footer and trail have checksums of their own: no byte of a file is uncovered.
The head has 64 bytes in every version, so that a later one is refused by name.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import google_crc32c
import numpy as np
import pyarrow as pa

from penstock.codec.stored.framed import FRAME_BYTES, frame, unframe
from penstock.errors import CorruptionError
from penstock.log.batch_directory import BatchDirectory, Int64s
from penstock.model.place.bucket import BucketId

MAGIC: Final = b"PNDF"
VERSION: Final = 1
ALIGNMENT: Final = 64
HEAD: Final = frame(MAGIC, VERSION, bytes(ALIGNMENT - FRAME_BYTES))
HEAD_BYTES: Final = len(HEAD)

_FOOTER_MAGIC: Final = b"PNFT"
_TRAIL: Final = struct.Struct("<QI4s")
TRAIL_BYTES: Final = _TRAIL.size
_FIXED: Final = struct.Struct("<IIIqqqq?qqqIIQQ")


@dataclass(frozen=True, slots=True)
class DataFileInfo:
    """The contents of a data file in numbers.

    It covers the offsets [start, end). `min_offset` and `max_offset` are those of its rows, -1 if
    it has none; `live_rows` counts the rows that were live when it was written.
    """

    bucket: BucketId
    schema_id: int
    start: int
    end: int
    rows: int
    dense: bool
    live_rows: int
    min_offset: int
    max_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Footer:
    """The places of everything in a data file."""

    info: DataFileInfo
    schema: pa.Schema
    block_rows: Int64s
    block_min_offset: Int64s
    block_max_offset: Int64s
    chunk_position: Int64s
    chunk_bytes: Int64s
    chunk_crc: Int64s
    directory: BatchDirectory


def encode_footer(footer: Footer) -> bytes:
    """Return footer and trail, the end of a file; `size_bytes` of the info is not stored."""
    info, bucket = footer.info, footer.info.bucket
    schema = footer.schema.serialize().to_pybytes()
    directory = footer.directory.to_bytes()
    fixed = _FIXED.pack(
        bucket.table_id,
        bucket.partition_id,
        bucket.bucket,
        info.schema_id,
        info.start,
        info.end,
        info.rows,
        info.dense,
        info.live_rows,
        info.min_offset,
        info.max_offset,
        len(footer.block_rows),
        len(footer.schema),
        len(schema),
        len(directory),
    )
    arrays = [
        np.ascontiguousarray(array, dtype="<i8").tobytes()
        for array in (
            footer.block_rows,
            footer.block_min_offset,
            footer.block_max_offset,
            footer.chunk_position,
            footer.chunk_bytes,
            footer.chunk_crc,
        )
    ]
    framed = frame(_FOOTER_MAGIC, VERSION, b"".join((fixed, schema, *arrays, directory)))
    length = struct.pack("<Q", len(framed))
    return framed + _TRAIL.pack(len(framed), google_crc32c.value(length), MAGIC)


def footer_length(trail: memoryview, *, name: str) -> int:
    """Return the length of the footer in front of the last bytes of a file.

    Raises:
        CorruptionError: the file does not end as a data file ends.
    """
    if len(trail) == TRAIL_BYTES:
        length, crc, magic = _TRAIL.unpack(trail)
        if magic == MAGIC and google_crc32c.value(struct.pack("<Q", length)) == crc:
            return int(length)
    raise CorruptionError("data file does not end as it was written; restore it", file=name)


def decode_footer(data: memoryview, *, size_bytes: int, name: str) -> Footer:
    """Return the footer of a file of that size.

    Raises:
        CorruptionError: the footer is damaged.
        UnsupportedError: the file is of a later version.
    """
    _, payload = unframe(_FOOTER_MAGIC, VERSION, data, name=name)
    try:
        return _decode_payload(payload, size_bytes)
    except (struct.error, ValueError, pa.ArrowException) as error:
        raise CorruptionError("footer of the data file cannot be read; restore it", file=name) from error


def _decode_payload(payload: bytes, size_bytes: int) -> Footer:
    (table_id, partition_id, bucket, schema_id, start, end, rows, dense, live_rows, *rest) = _FIXED.unpack_from(payload)
    min_offset, max_offset, blocks, columns, schema_bytes, directory_bytes = rest
    position = _FIXED.size + schema_bytes
    schema = pa.ipc.read_schema(pa.py_buffer(payload[_FIXED.size : position]))
    arrays: list[Int64s] = []
    for shape in [(blocks,)] * 3 + [(blocks, columns)] * 3:
        count = int(np.prod(shape))
        arrays.append(np.frombuffer(payload, dtype="<i8", count=count, offset=position).reshape(shape))
        position += 8 * count
    block_rows, block_min_offset, block_max_offset, chunk_position, chunk_bytes, chunk_crc = arrays
    info = DataFileInfo(
        BucketId(table_id, partition_id, bucket),
        schema_id=schema_id,
        start=start,
        end=end,
        rows=rows,
        dense=dense,
        live_rows=live_rows,
        min_offset=min_offset,
        max_offset=max_offset,
        size_bytes=size_bytes,
    )
    return Footer(
        info,
        schema,
        block_rows=block_rows,
        block_min_offset=block_min_offset,
        block_max_offset=block_max_offset,
        chunk_position=chunk_position,
        chunk_bytes=chunk_bytes,
        chunk_crc=chunk_crc,
        directory=BatchDirectory.from_bytes(memoryview(payload)[position : position + directory_bytes]),
    )
