"""The header of a segment file: whose rows follow, from which offset, in which schema.

And whether they were acknowledged before they were synced: then a power loss may have taken some.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.codec.stored.framed import FRAME_BYTES, frame, framed_length, unframe
from penstock.errors import CorruptionError
from penstock.model.place.bucket import BucketId

MAGIC: Final = b"PNSG"
VERSION: Final = 3
ALIGNMENT: Final = 64

SYNCED: Final = bytes(16)
"""Instead of a boot: every batch is synced before it is acknowledged."""

UNKNOWN_BOOT: Final = b"\xff" * 16
"""What a segment of version 1 says: nothing."""

_FIXED: Final = struct.Struct("<IIIqqI")
_FIRST_WITH_BOOT: Final = 2
_FIRST_WITH_COUNTS: Final = 3


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The facts that every batch of a segment shares.

    `boot` is the machine's boot in which batches were acknowledged before they were synced, or SYNCED.
    `counts_zeros`: its batches, of version 2 or later, say how many of their sectors are zero.
    """

    bucket: BucketId
    base_offset: int
    schema_id: int
    schema: pa.Schema
    boot: bytes = SYNCED
    counts_zeros: bool = True

    def encode(self) -> bytes:
        """Return the header, a multiple of 64 bytes; its padding is under the checksum too."""
        stored = self.schema.serialize().to_pybytes()
        bucket = self.bucket
        payload = (
            _FIXED.pack(
                bucket.table_id, bucket.partition_id, bucket.bucket, self.base_offset, self.schema_id, len(stored)
            )
            + self.boot
            + stored
        )
        return frame(MAGIC, VERSION, payload + bytes(-(FRAME_BYTES + len(payload)) % ALIGNMENT))


def decode_segment_header(data: memoryview, *, name: str) -> tuple[SegmentHeader, int]:
    """Return the header at the start of a segment file, and where the first batch begins.

    Raises:
        CorruptionError: the header is not whole.
        UnsupportedError: the segment is of a later version.
    """
    end = framed_length(data)
    version, payload = unframe(MAGIC, VERSION, data[:end], name=name)
    table_id, partition_id, bucket, base_offset, schema_id, stored_bytes = _FIXED.unpack_from(payload)
    boot, rest = UNKNOWN_BOOT, payload[_FIXED.size :]
    if version >= _FIRST_WITH_BOOT:
        boot, rest = rest[: len(SYNCED)], rest[len(SYNCED) :]
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(rest[:stored_bytes]))
    except pa.ArrowException as error:
        raise CorruptionError("segment's schema cannot be read; restore it", file=name) from error
    counts_zeros = version >= _FIRST_WITH_COUNTS
    found = BucketId(table_id, partition_id, bucket)
    return SegmentHeader(found, base_offset, schema_id, schema, boot, counts_zeros), end
