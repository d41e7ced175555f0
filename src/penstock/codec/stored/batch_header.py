"""The bytes in front of, and behind, the body of a log batch.

A batch is header, body, zeros up to a multiple of 8, end mark (8 bytes): all lengths are multiples
of 8, so batches follow one another at aligned positions. The header carries a checksum of itself
and one of everything behind it, so that the length of a batch can be trusted even if its body
cannot. The position of the batch in its file is part of the header: bytes that were moved, or left
behind by an earlier use of the space, never pass for a batch. The end mark is never zero: a batch
which is followed by zeros and has no end mark was not written to its end.

`synced_end` is the size of the file that was known to be durable when the batch was written. It
tells recovery which of two batches can have been lost without the other (see `log.segment`). So does
the number of sectors that are zero because the rows are: more of them were lost, no more of them
means that a wrong checksum is damage. The header ends in a mark of its own, so that no sector that
has a part of it is zero, unless it was lost.

Since version 2 a batch names the group that it was committed in, and the buckets of that.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import google_crc32c
import pyarrow as pa

from penstock.codec.stored.group_mark import MEMBER_BYTES, NO_GROUP, GroupMark
from penstock.codec.stored.zero_sectors import zero_sectors
from penstock.errors import UnsupportedError
from penstock.model.place.change import BatchKind
from penstock.model.place.facts import BatchFacts

MAGIC: Final = b"PNSB"
VERSION: Final = 2
HEADER_MARK: Final = b"PNSBHDR\n"
END_MARK: Final = b"PNSBEND\n"
ALIGNMENT: Final = 8

# magic, header crc, version, kind, flags, columns, header bytes, body crc, body bytes, position,
# synced end, base offset, rows, timestamp, term, sequence, owner, fence, epoch, schema, writer, attempt
_LAYOUT: Final = struct.Struct("<4sIHBBIIIQQQqqqqqqqqq16s16s")
# group, runs of buckets, sectors of the body that are zero; not in version 1
_GROUP: Final = struct.Struct("<qII")
_CRC_FIELD: Final = struct.Struct("<4sI")
_CLAIM: Final = struct.Struct("<4sIHBBII")
_ALL_COLUMNS: Final = 1
_GROUP_GOES_ON: Final = 2
_COLUMNS_MAX: Final = 1 << 16
_MEMBERS_MAX: Final = 1 << 20
_FIRST_WITH_GROUP: Final = 2
_KIND_MAX: Final = max(BatchKind)
HEADER_BYTES_MIN: Final = _LAYOUT.size + _GROUP.size + len(HEADER_MARK)

assert _LAYOUT.size % ALIGNMENT == _GROUP.size % ALIGNMENT == 0


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """A header that passed its own checksum; `position` is where it was written.

    `zero_sectors` is None in version 1, which does not say.
    """

    facts: BatchFacts
    position: int
    synced_end: int
    header_bytes: int
    body_bytes: int
    body_crc: int
    group: GroupMark
    zero_sectors: int | None

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


def encode_batch(
    facts: BatchFacts,
    position: int,
    body: bytes | memoryview | pa.Buffer,
    *,
    synced_end: int,
    group: GroupMark = NO_GROUP,
) -> bytes:
    """Return the header of a batch at `position`; body and `batch_end` follow it in the file."""
    assert position % ALIGNMENT == 0
    assert synced_end <= position
    named = b"" if facts.columns is None else struct.pack(f"<{len(facts.columns)}I", *facts.columns)
    named += bytes(_padded(len(named)) - len(named))
    body_bytes = len(body)
    readable = pa.py_buffer(body) if isinstance(body, memoryview) else body
    body_crc = google_crc32c.extend(google_crc32c.value(readable), batch_end(body_bytes))
    header_bytes = HEADER_BYTES_MIN + len(named) + len(group.members)
    fixed = _LAYOUT.pack(
        MAGIC,
        0,
        VERSION,
        facts.kind,
        (_ALL_COLUMNS if facts.columns is None else 0) | (_GROUP_GOES_ON if group.goes_on else 0),
        0 if facts.columns is None else len(facts.columns),
        header_bytes,
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
    zeros = zero_sectors(readable, position + header_bytes)
    marked = _GROUP.pack(group.number, len(group.members) // MEMBER_BYTES, zeros)
    header = b"".join((fixed, marked, named, group.members, HEADER_MARK))
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
    ids, group, zeros = _LAYOUT.size, NO_GROUP, None
    if version >= _FIRST_WITH_GROUP:
        number, members, zeros = _GROUP.unpack_from(header, _LAYOUT.size)
        ids += _GROUP.size
        named = ids + _padded(4 * count)
        group = GroupMark(number, header[named : named + members * MEMBER_BYTES], bool(flags & _GROUP_GOES_ON))
    columns = None if flags & _ALL_COLUMNS else struct.unpack_from(f"<{count}I", header, ids)
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
    return BatchHeader(facts, own_position, synced_end, length, body_bytes, body_crc, group, zeros)


def header_length(data: memoryview, position: int) -> int | None:
    """Return the length that the bytes at `position` claim for a header, None if they cannot be one.

    The claim is not checked by a checksum; it says no more than how far a header would reach.
    """
    if position + _LAYOUT.size > len(data) or bytes(data[position : position + 4]) != MAGIC:
        return None
    _, _, version, _, _, count, length = _CLAIM.unpack_from(data, position)
    expected = _LAYOUT.size + _padded(4 * count)
    if version >= _FIRST_WITH_GROUP:
        if position + HEADER_BYTES_MIN > len(data):
            return None
        _, members, _ = _GROUP.unpack_from(data, position + _LAYOUT.size)
        if members > _MEMBERS_MAX:
            return None
        expected += _GROUP.size + members * MEMBER_BYTES + len(HEADER_MARK)
    if count > _COLUMNS_MAX or length != expected:
        return None
    return int(length)


def body_is_intact(header: BatchHeader, data: memoryview) -> bool:
    """Tell whether everything behind the header is in `data` and passes its checksum."""
    if header.end > len(data):
        return False
    rest = pa.py_buffer(data[header.body_position : header.end])
    return bool(google_crc32c.value(rest) == header.body_crc)
