"""The bytes in front of, and behind, the body of a log batch.

A batch is header, body, zeros up to a multiple of 8, end mark (8 bytes): all lengths are multiples
of 8, so batches follow one another at aligned positions. The header carries a checksum of itself
and one of everything behind it, so that the length of a batch can be trusted even if its body
cannot. The position of the batch in its file is part of the header: bytes that were moved, or left
behind by an earlier use of the space, never pass for a batch. The end mark is never zero: a batch
which is followed by zeros and has no end mark was not written to its end.

`synced_end` is the size of the file that was known to be durable when the batch was written. It
tells recovery which of two batches can have been lost without the other (see `log.segment`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import google_crc32c
import pyarrow as pa

from penstock.errors import UnsupportedError
from penstock.model.change import BatchKind
from penstock.model.facts import BatchFacts

MAGIC: Final = b"PNSB"
VERSION: Final = 1
END_MARK: Final = b"PNSBEND\n"
ALIGNMENT: Final = 8

# magic, header crc, version, kind, flags, columns, header bytes, body crc, body bytes, position,
# synced end, base offset, rows, timestamp, term, sequence, owner, fence, epoch, schema, writer, attempt
_LAYOUT: Final = struct.Struct("<4sIHBBIIIQQQqqqqqqqqq16s16s")
_CRC_FIELD: Final = struct.Struct("<4sI")
_ALL_COLUMNS: Final = 1
_COLUMNS_MAX: Final = 1 << 16
_KIND_MAX: Final = max(BatchKind)
HEADER_BYTES_MIN: Final = _LAYOUT.size

assert _LAYOUT.size % ALIGNMENT == 0


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """A header that passed its own checksum; `position` is where it was written."""

    facts: BatchFacts
    position: int
    synced_end: int
    header_bytes: int
    body_bytes: int
    body_crc: int

    @property
    def body_position(self) -> int:
        """Return the position of the body in the file."""
        return self.position + self.header_bytes

    @property
    def end(self) -> int:
        """Return the position after the batch, end mark included."""
        return self.body_position + _padded(self.body_bytes) + len(END_MARK)


def _padded(length: int) -> int:
    return (length + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def batch_end(body_bytes: int) -> bytes:
    """Return what follows a body of that length: padding and end mark."""
    return bytes(_padded(body_bytes) - body_bytes) + END_MARK


def encode_batch(facts: BatchFacts, position: int, body: bytes | memoryview | pa.Buffer, *, synced_end: int) -> bytes:
    """Return the header of a batch at `position`; body and `batch_end` follow it in the file."""
    assert position % ALIGNMENT == 0
    assert synced_end <= position
    named = b"" if facts.columns is None else struct.pack(f"<{len(facts.columns)}I", *facts.columns)
    named += bytes(_padded(len(named)) - len(named))
    body_bytes = len(body)
    readable = pa.py_buffer(body) if isinstance(body, memoryview) else body
    body_crc = google_crc32c.extend(google_crc32c.value(readable), batch_end(body_bytes))
    fixed = _LAYOUT.pack(
        MAGIC,
        0,
        VERSION,
        facts.kind,
        _ALL_COLUMNS if facts.columns is None else 0,
        0 if facts.columns is None else len(facts.columns),
        _LAYOUT.size + len(named),
        body_crc,
        body_bytes,
        position,
        synced_end,
        facts.base_offset,
        facts.rows,
        facts.timestamp_ms,
        facts.term,
        facts.sequence,
        facts.owner,
        facts.fence,
        facts.epoch,
        facts.schema_id,
        facts.writer_id,
        facts.attempt,
    )
    header = fixed + named
    return _CRC_FIELD.pack(MAGIC, google_crc32c.value(header)) + header[_CRC_FIELD.size :]


def decode_header(data: memoryview, position: int, *, name: str = "log batch") -> BatchHeader | None:
    """Return the header at `position` of a file's bytes, or None if no intact header is there.

    The caller compares the header's own position with where it was found: an intact header that
    was written elsewhere is no lost write but damage.

    Raises:
        UnsupportedError: the header is intact, in its place, and of a later version.
    """
    length = header_length(data, position)
    if length is None or position + length > len(data):
        return None
    header = bytes(data[position : position + length])
    fields = _LAYOUT.unpack_from(header)
    _, crc, version, kind, flags, count, _, body_crc, body_bytes, own_position, synced_end, *rest = fields
    if google_crc32c.value(MAGIC + bytes(4) + header[_CRC_FIELD.size :]) != crc:
        return None
    if version > VERSION or kind > _KIND_MAX:
        if own_position != position:
            return None
        raise UnsupportedError(
            "file was written by a newer version; upgrade",
            file=name,
            version=version,
            supported=VERSION,
            position=position,
        )
    base_offset, rows, timestamp_ms, term, sequence, owner, fence, epoch, schema_id, writer_id, attempt = rest
    columns = None if flags & _ALL_COLUMNS else struct.unpack_from(f"<{count}I", header, _LAYOUT.size)
    facts = BatchFacts(
        base_offset=base_offset,
        rows=rows,
        timestamp_ms=timestamp_ms,
        term=term,
        schema_id=schema_id,
        kind=BatchKind(kind),
        writer_id=writer_id,
        sequence=sequence,
        owner=owner,
        fence=fence,
        epoch=epoch,
        attempt=attempt,
        columns=columns,
    )
    return BatchHeader(facts, own_position, synced_end, length, body_bytes, body_crc)


def header_length(data: memoryview, position: int) -> int | None:
    """Return the length that the bytes at `position` claim for a header, None if they cannot be one.

    The claim is not checked by a checksum; it says no more than how far a header would reach.
    """
    if position + _LAYOUT.size > len(data) or bytes(data[position : position + 4]) != MAGIC:
        return None
    _, _, _, _, _, count, length = struct.unpack_from("<4sIHBBII", data, position)
    if count > _COLUMNS_MAX or length != _LAYOUT.size + _padded(4 * count):
        return None
    return int(length)


def body_is_intact(header: BatchHeader, data: memoryview) -> bool:
    """Tell whether everything behind the header is in `data` and passes its checksum."""
    if header.end > len(data):
        return False
    rest = pa.py_buffer(data[header.body_position : header.end])
    return bool(google_crc32c.value(rest) == header.body_crc)
