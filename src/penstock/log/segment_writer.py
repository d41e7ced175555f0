"""Append batches to one segment file.

- What `append` returned for is in the file in full or, after `rollback`, not at all.
- Bytes that were cut off are gone durably before anything is written in their place: a cut is
  synced. Otherwise a power loss could bring back a batch that was taken back, behind a new one.
- After a failed sync it is not known what is on the disk: the writer takes nothing more.
- Space is reserved ahead of what is appended, more of it the longer the segment is: many buckets
  with a few rows each take little, and one that is written much seldom asks the file system.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final, NoReturn

import pyarrow as pa

from penstock.codec.stored.batch_header import batch_end, encode_batch
from penstock.codec.stored.group_mark import NO_GROUP, GroupMark
from penstock.errors import BucketFailedError
from penstock.log.append_pool import AppendPool
from penstock.log.segment_header import SYNCED, SegmentHeader
from penstock.model.place.bucket import BucketId
from penstock.model.place.facts import BatchFacts
from penstock.runtime.disk import AppendFile, Disk

Entry = tuple[BatchFacts, pa.RecordBatch | None]
"""A log batch to append; without rows it has no body."""

_RESERVED_MIN: Final = 16 << 10
_RESERVED_AHEAD_MAX: Final = 4 << 20


class SegmentWriter:
    """The one writer of a segment. Not thread-safe; `sync` may run in another thread than `append`."""

    def __init__(self, file: AppendFile, path: str, header: SegmentHeader, preallocate_bytes: int = 0) -> None:
        self._file = file
        self._path = path
        self._schema = header.schema
        self._end_offset = header.base_offset
        self._synced_end = file.size
        self._marks = {file.size: header.base_offset}
        self._failure: OSError | None = None
        self._reserved_max = preallocate_bytes
        self._reserved = min(preallocate_bytes, _RESERVED_MIN)

    @classmethod
    def create(
        cls,
        disk: Disk,
        path: str,
        *,
        bucket: BucketId,
        base_offset: int,
        schema_id: int,
        schema: pa.Schema,
        preallocate_bytes: int,
        boot: bytes = SYNCED,
        pool: AppendPool | None = None,
    ) -> SegmentWriter:
        """Create a segment; it is durable, header and name, before this returns.

        Space is reserved as it grows, up to `preallocate_bytes`. With a `pool` its descriptor is one of those.
        A writer whose batches are acknowledged before they are synced names the machine's `boot`.

        Raises:
            OSError: as the disk gave it; the file is removed as far as the disk allows.
        """
        header = SegmentHeader(bucket, base_offset, schema_id, schema, boot)
        file = disk.create(path) if pool is None else pool.create(path)
        try:
            file.preallocate(min(preallocate_bytes, _RESERVED_MIN))
            file.append(header.encode())
            file.sync()
            disk.sync_directory(path.rpartition("/")[0])
        except OSError:
            file.close()
            with contextlib.suppress(OSError):
                disk.remove(path)
            raise
        return cls(file, path, header, preallocate_bytes)

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return self._path

    @property
    def size(self) -> int:
        """Return the bytes appended, header included."""
        return self._file.size

    @property
    def end_offset(self) -> int:
        """Return the offset that the next batch starts at."""
        return self._end_offset

    def append(self, facts: BatchFacts, batch: pa.RecordBatch | None) -> int:
        """Append a batch, not yet durable; return its bytes in the file.

        Raises:
            OSError, BucketFailedError: as `append_all` has it.
        """
        return self.append_all([(facts, batch)])

    def append_all(self, entries: Sequence[Entry], group: GroupMark = NO_GROUP) -> int:
        """Append batches, all or none, not yet durable; return their bytes in the file.

        They are what the bucket has of a group. A batch without rows is stored without a body; None will do for it.

        Raises:
            OSError: nothing of them is in the file.
            BucketFailedError: an earlier error left the file in doubt.
        """
        if self._failure is not None:
            self._refuse()
        start = position = self._file.size
        end_offset = self._end_offset
        pieces: list[bytes | memoryview] = []
        for number, (facts, batch) in enumerate(entries, 1):
            assert facts.base_offset == end_offset
            body = self._body(facts, batch)
            goes_on = number < len(entries) and group is not NO_GROUP
            mark = group._replace(goes_on=True) if goes_on else group
            header = encode_batch(facts, position, body, synced_end=self._synced_end, group=mark)
            padding = batch_end(len(body))
            pieces += (header, memoryview(body), padding)
            position += len(header) + len(body) + len(padding)
            end_offset = facts.end_offset
        if position > self._reserved:
            self._reserve(position)
        try:
            self._file.append(*pieces)
        except OSError:
            self._cut(start)
            raise
        self._end_offset = end_offset
        self._marks[position] = end_offset
        return position - start

    def _reserve(self, size: int) -> None:
        """Reserve space for the segment as long as it is going to be, and some ahead."""
        self._reserved = max(size, min(size + min(size, _RESERVED_AHEAD_MAX), self._reserved_max))
        if self._reserved_max:
            self._file.preallocate(self._reserved)

    def _body(self, facts: BatchFacts, batch: pa.RecordBatch | None) -> bytes | pa.Buffer:
        assert facts.rows == (0 if batch is None else batch.num_rows)
        if batch is None or not facts.rows:
            return b""
        assert batch.schema.equals(self._schema), f"{batch.schema} is not {self._schema}"
        return batch.serialize()

    def rollback(self, size: int) -> None:
        """Take back the batches beyond `size`, an earlier size since the last sync but one.

        Raises:
            BucketFailedError: the file could not be cut; it is in doubt.
        """
        if self._failure is not None:
            self._refuse()
        if size == self.size:
            return
        self._end_offset = self._marks[size]
        self._cut(size)
        if self._failure is not None:
            self._refuse()

    def sync(self) -> None:
        """Make everything appended durable.

        Raises:
            BucketFailedError: it failed, now or before.
        """
        if self._failure is not None:
            self._refuse()
        size, end_offset = self._file.size, self._end_offset
        try:
            self._file.sync()
        except OSError as error:
            self._failure = error
            self._refuse()
        # What was synced may still be taken back: the same group may fail in another bucket.
        before = self._synced_end
        self._marks = {before: self._marks[before], size: end_offset}
        self._synced_end = size

    def finish(self) -> None:
        """Give back the space that was reserved and not used, sync, close.

        Raises:
            BucketFailedError: it failed, now or before.
        """
        if self._failure is not None:
            self._refuse()
        self._cut(self.size)
        if self._failure is not None:
            self._refuse()
        self._file.close()

    def close(self) -> None:
        """Close the file; idempotent. Does not sync."""
        self._file.close()

    def _cut(self, size: int) -> None:
        try:
            self._file.truncate(size)
            self._file.sync()
        except OSError as error:
            self._failure = error
            return
        self._synced_end = size
        self._reserved = size
        self._marks = {size: self._end_offset}

    def _refuse(self) -> NoReturn:
        raise BucketFailedError(
            "log file is in doubt after an error; reopen the bucket", file=self._path
        ) from self._failure
