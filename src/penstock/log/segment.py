"""Read a segment: a header, then batches, then nothing.

Batches are checked in order: checksums, position, dense offsets, then every value. Where the first
check fails, at position p, the question is whether the bytes were *lost* before anyone was told
that they are durable (the rest is *torn*, and cut), or *damaged* after that (CorruptionError).

What a power loss does: of the writes since the last sync, any sectors are there and any others
read as zeros, in any order; the file may also be shorter. A group of batches is appended before
one sync, so an intact batch may well follow a lost one. What it cannot do is lose anything that a
sync covered. Each batch therefore carries `synced_end`, the size of the file known to be durable
when it was written. So the rest is torn iff all of this holds:

1. The segment is the last of its bucket: the others were finished with a sync.
2. No intact batch behind p has `synced_end` > p. One that has was written when p was durable.
3. The first bad batch looks lost: the file ends inside it, or its last byte is zero (that of the end
   mark never is), or more of its sectors are zero than were when it was written. Its header counts
   them; that of a header that is not intact itself never are. A batch that is all there and fails its
   checksum has been damaged.
4. The rows before p reach `durable_end`, where the caller knows one from elsewhere (a checkpoint,
   the index, its own memory).

Rows of an intact batch behind a torn one were never acknowledged; they are cut with the rest. A
rest of zeros only is space that was reserved; it counts as torn as well, so that it gets cut.

The segment's header is durable before its first batch is written. A last segment whose header is
not whole, without any intact batch, is a creation that never finished: there is no segment.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.stored.batch_header import (
    ALIGNMENT,
    END_MARK,
    HEADER_BYTES_MIN,
    MAGIC,
    BatchHeader,
    body_is_intact,
    decode_header,
    header_length,
)
from penstock.codec.stored.flipped_bit import is_one_bit_short
from penstock.codec.stored.group_mark import GroupMark
from penstock.codec.stored.zero_sectors import SECTOR_BYTES, zero_sectors
from penstock.errors import CorruptionError
from penstock.log.segment_header import SYNCED, decode_segment_header
from penstock.log.segment_writer import SegmentWriter
from penstock.model.place.bucket import BucketId
from penstock.model.place.facts import BatchFacts
from penstock.runtime.disk import Disk, write_atomically

__all__ = ["Segment", "SegmentWriter", "cut_segment", "read_segment"]

_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as read: its facts, its batches, the position and the group of each, and where they end.

    `torn` says that the file has more bytes than the valid ones: `cut_segment` takes them off. `boot` is
    that in which batches were acknowledged before they were synced, or SYNCED.
    """

    bucket: BucketId
    base_offset: int
    schema_id: int
    schema: pa.Schema
    batches: list[tuple[BatchFacts, pa.RecordBatch | None]]
    positions: list[int]
    groups: list[GroupMark]
    valid_bytes: int
    torn: bool
    boot: bytes = SYNCED

    @property
    def end_offset(self) -> int:
        """Return the offset after the last row."""
        return self.batches[-1][0].end_offset if self.batches else self.base_offset

    def up_to_group(self, number: int) -> Segment:
        """Return the segment as if it had ended after the last group of that number or a smaller one."""
        kept = sum(group.number <= number for group in self.groups)
        assert all(group.number > number for group in self.groups[kept:]), "groups are numbered in order"
        if kept == len(self.batches):
            return self
        return replace(
            self,
            batches=self.batches[:kept],
            positions=self.positions[:kept],
            groups=self.groups[:kept],
            valid_bytes=self.positions[kept],
            torn=True,
        )

    def before_group(self, number: int) -> Segment:
        """Return the segment as if it had ended before its last group, which has that number."""
        kept = sum(group.number != number for group in self.groups)
        assert all(group.number == number for group in self.groups[kept:]), "only the last group is taken off"
        if kept == len(self.batches):
            return self
        return replace(
            self,
            batches=self.batches[:kept],
            positions=self.positions[:kept],
            groups=self.groups[:kept],
            valid_bytes=self.positions[kept],
            torn=True,
        )


def read_segment(disk: Disk, path: str, *, last: bool, durable_end: int | None) -> Segment | None:
    """Return the segment, or None for a last one whose creation never finished.

    `durable_end` is an offset up to which the bucket's log is known to be durable: a last segment
    that ends below it is damaged. For None the caller compares the segment before.

    Raises:
        CorruptionError: the file is damaged; names file and position.
        UnsupportedError: the file was written by a newer version.
    """
    data = _read_whole(disk, path)
    try:
        header, position = decode_segment_header(data, name=path)
    except CorruptionError:
        if last and next(_intact_batches(data, 0, path), None) is None:
            return None
        raise
    offset = header.base_offset
    batches: list[tuple[BatchFacts, pa.RecordBatch | None]] = []
    positions: list[int] = []
    groups: list[GroupMark] = []
    while position < len(data):
        found = decode_header(data, position, name=path)
        if found is not None and found.position != position:
            raise CorruptionError("log batch is not where it was written", file=path, position=position)
        if found is None or not body_is_intact(found, data):
            break
        if found.facts.base_offset != offset:
            raise CorruptionError(
                "log batch has the wrong offset", file=path, position=position, offset=found.facts.base_offset
            )
        batches.append((found.facts, _decode_body(found, data, header.schema, path)))
        positions.append(position)
        groups.append(found.group)
        position, offset = found.end, found.facts.end_offset
    torn = position < len(data)
    if torn and not (last and _is_lost(data, position, path, counted=header.counts_zeros)):
        raise CorruptionError("log is damaged; restore it", file=path, position=position)
    if last and durable_end is not None and offset < durable_end:
        raise CorruptionError(
            "log ends before what was durable; restore it",
            file=path,
            position=position,
            end_offset=offset,
            durable_end=durable_end,
        )
    return Segment(
        header.bucket,
        base_offset=header.base_offset,
        schema_id=header.schema_id,
        schema=header.schema,
        batches=batches,
        positions=positions,
        groups=groups,
        valid_bytes=position,
        torn=torn,
        boot=header.boot,
    )


def cut_segment(disk: Disk, path: str, valid_bytes: int) -> None:
    """Cut a segment to what was valid in it, and make that durable: it may be shown, and have a successor.

    The valid bytes are written again. After a sync that failed, in this process or in one before,
    the kernel may hold pages that are not on the disk as clean: no further sync would write them.
    A disk without room for another copy has them written where they are.

    Raises:
        OSError: as the disk gave it; the file is as it was.
    """
    try:
        write_atomically(disk, path, _pieces(disk, path, valid_bytes))
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        disk.remove(f"{path}.tmp")
        file = disk.open_append(path, valid_bytes)
        try:
            file.rewrite()
            file.sync()
        finally:
            file.close()


def _pieces(disk: Disk, path: str, size: int) -> Iterator[memoryview]:
    file = disk.open_read(path)
    try:
        for position in range(0, size, _PIECE_BYTES):
            piece = file.pread(position, min(_PIECE_BYTES, size - position))
            assert len(piece) == min(_PIECE_BYTES, size - position), (path, position)
            yield piece
    finally:
        file.close()


def _read_whole(disk: Disk, path: str) -> memoryview:
    file = disk.open_read(path)
    try:
        return file.pread(0, file.size)
    finally:
        file.close()


def _decode_body(header: BatchHeader, data: memoryview, schema: pa.Schema, path: str) -> pa.RecordBatch | None:
    rows = header.facts.rows
    if rows == 0 and header.body_bytes == 0:
        return None
    body = pa.py_buffer(data[header.body_position : header.body_position + header.body_bytes])
    try:
        batch = pa.ipc.read_record_batch(body, schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError("log batch cannot be read", file=path, position=header.position) from error
    if batch.num_rows != rows:
        raise CorruptionError(
            "log batch has the wrong number of rows", file=path, position=header.position, rows=batch.num_rows
        )
    return batch


def _intact_batches(data: memoryview, position: int, path: str) -> Iterator[BatchHeader]:
    """Find the intact batches from `position` on, whatever lies between them."""
    aligned = len(data) // ALIGNMENT * ALIGNMENT
    words = np.frombuffer(data[:aligned], dtype="<u4")[::2]
    wanted = int.from_bytes(MAGIC, "little")
    for candidate in np.flatnonzero(words == wanted) * ALIGNMENT:
        if candidate < position:
            continue
        found = decode_header(data, int(candidate), name=path)
        if found is not None and found.position == candidate and body_is_intact(found, data):
            position = found.end
            yield found


def _is_lost(data: memoryview, position: int, path: str, *, counted: bool) -> bool:
    """Tell whether the bad bytes at `position` can be writes that no sync covered.

    `counted`: batches of the segment say how many of their sectors are zero.
    """
    rest = np.frombuffer(data[position:], dtype=np.uint8)
    written = _written(rest)
    if written == 0:
        return True
    bad = decode_header(data, position, name=path)
    # The length of an intact header holds: what lies inside its batch is its rows, not batches.
    followers = _intact_batches(data, position + ALIGNMENT if bad is None else bad.end, path)
    first = next(followers, None)
    if first is not None and (first.synced_end > position or any(later.synced_end > position for later in followers)):
        return False
    header_bytes = header_length(data, position) or HEADER_BYTES_MIN
    if bad is None and written < header_bytes:
        return True
    if bad is not None:
        end = bad.end
        if end <= len(data) and bad.zero_sectors is not None:
            return _has_lost_body(bad, data, bad.zero_sectors)
    elif counted:
        # No sector that has a part of a header is zero: one that is was lost. The header may be longer than it claims.
        end = position + header_bytes
        whole = end + -end % SECTOR_BYTES - position
        return end > len(data) or _has_zero_sector(rest[:whole], position)
    elif first is not None:
        end = first.position
    else:
        end = position + written
    return end > len(data) or _has_lost_sector(rest[: end - position], position)


def _has_lost_body(bad: BatchHeader, data: memoryview, zeros: int) -> bool:
    mark = bad.end - len(END_MARK)
    body, behind = data[bad.body_position : mark], data[mark : bad.end]
    if behind[-1] == 0:
        return True
    more = zero_sectors(body, bad.body_position) - zeros
    if more == 1:
        # A sector of which one bit was set, and is not any more, was not lost.
        return not is_one_bit_short(body, bad.body_position, bad.body_crc, behind=behind)
    return more > 0


def _written(rest: npt.NDArray[np.uint8]) -> int:
    """Return the length of `rest` without the zeros at its end."""
    step = 1 << 20
    for start in range((max(len(rest), 1) - 1) // step * step, -1, -step):
        used = np.flatnonzero(rest[start : start + step])
        if len(used):
            return start + int(used[-1]) + 1
    return 0


def _has_lost_sector(bad: npt.NDArray[np.uint8], position: int) -> bool:
    return bool(bad[-1] == 0) or _has_zero_sector(bad, position)


def _has_zero_sector(bad: npt.NDArray[np.uint8], position: int) -> bool:
    starts = np.arange(-(position % SECTOR_BYTES), len(bad), SECTOR_BYTES).clip(min=0)
    return not np.logical_or.reduceat(bad != 0, starts).all()
