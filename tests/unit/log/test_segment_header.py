import struct

import pyarrow as pa
import pytest

from penstock.codec.stored.framed import FRAME_BYTES, frame
from penstock.errors import CorruptionError, UnsupportedError
from penstock.log.segment_header import ALIGNMENT, MAGIC, SYNCED, UNKNOWN_BOOT, SegmentHeader, decode_segment_header
from penstock.model.place.bucket import BucketId

SCHEMA = pa.schema([pa.field("0", pa.int64()), pa.field("1", pa.string())])
BOOT = bytes(range(16))


def version_1(header: SegmentHeader) -> bytes:
    """Return a header as the first version wrote it: without a boot."""
    stored = header.schema.serialize().to_pybytes()
    bucket = header.bucket
    payload = struct.pack(
        "<IIIqqI",
        bucket.table_id,
        bucket.partition_id,
        bucket.bucket,
        header.base_offset,
        header.schema_id,
        len(stored),
    )
    payload += stored
    return frame(MAGIC, 1, payload + bytes(-(FRAME_BYTES + len(payload)) % ALIGNMENT))


@pytest.mark.parametrize("boot", [SYNCED, BOOT])
def test_header_is_read_as_it_was_written(boot: bytes) -> None:
    header = SegmentHeader(BucketId(1, 2, 3), 40, 5, SCHEMA, boot)
    data = header.encode()

    found, end = decode_segment_header(memoryview(data + b"batches"), name="segment")

    assert (found, end) == (header, len(data))
    assert end % ALIGNMENT == 0


def test_header_of_the_first_version_does_not_say_whether_batches_were_synced() -> None:
    header = SegmentHeader(BucketId(1, 2, 3), 40, 5, SCHEMA, UNKNOWN_BOOT, counts_zeros=False)
    data = version_1(header)

    assert decode_segment_header(memoryview(data), name="segment") == (header, len(data))


def test_header_of_a_later_version_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="file=segment version=4"):
        decode_segment_header(memoryview(frame(MAGIC, 4, bytes(64))), name="segment")


def test_boot_is_under_the_checksum() -> None:
    data = bytearray(SegmentHeader(BucketId(1, 2, 3), 40, 5, SCHEMA, BOOT).encode())
    data[data.index(BOOT)] ^= 1

    with pytest.raises(CorruptionError):
        decode_segment_header(memoryview(data), name="segment")
