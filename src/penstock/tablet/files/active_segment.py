"""The segment that takes a bucket's writes: its file, its rows in memory, and their ends.

What was published is acknowledged; what was appended since may still be taken back, in whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.codec.stored.group_mark import GroupMark
from penstock.log.segment import SegmentWriter, cut_segment
from penstock.log.segment_header import SYNCED
from penstock.log.segment_writer import Entry
from penstock.log.tail import Tail
from penstock.tablet.files.bucket_files import BucketFiles
from penstock.tablet.schema import TabletSchema
from penstock.tablet.view.ends import Ends
from penstock.tablet.view.span import Run, Span


@dataclass(frozen=True, slots=True)
class ClosedTail:
    """Rows whose segments are finished but not yet sealed into a data file."""

    run: Run
    schema: TabletSchema
    segments: tuple[str, ...]
    bytes: int

    @property
    def span(self) -> Span:
        """Return the rows as a span."""
        return Span(self.run.rows.start, self.run.rows.end, (self.run,))


class ActiveSegment:
    """The growing end of a bucket. Committer only; `sync` may run in another thread."""

    def __init__(
        self, files: BucketFiles, name: str, *, schema: TabletSchema, start: int, preallocate_bytes: int, synced: bool
    ) -> None:
        """Create the segment; it is durable, and empty, before this returns.

        `synced`: no batch is going to be published that was not synced before.

        Raises:
            OSError: as the disk gave it; the file may be left behind.
        """
        files.make_directory()
        self._writer = SegmentWriter.create(
            files.disk,
            files.path(name),
            bucket=files.bucket,
            base_offset=start,
            schema_id=schema.schema_id,
            schema=schema.storage,
            preallocate_bytes=preallocate_bytes,
            boot=SYNCED if synced else files.disk.boot_id(),
            pool=files.appends,
        )
        self._disk = files.disk
        self._name = name
        self._schema = schema
        self._published_bytes = self._writer.size
        self.tail = Tail(schema.storage, start)
        self._ends = Ends()

    @property
    def bytes(self) -> int:
        """Return the bytes appended."""
        return self._writer.size

    def append(self, entries: Sequence[Entry], group: GroupMark) -> None:
        """Append batches, all or none, not durable yet.

        Raises:
            OSError: they could not be appended.
            BucketFailedError: the file is in doubt after an earlier error.
        """
        self._writer.append_all(entries, group)

    def sync(self) -> None:
        """Make everything appended durable.

        Raises:
            BucketFailedError: it failed, now or before.
        """
        self._writer.sync()

    def publish(self, entries: Sequence[Entry], pieces: Iterable[pa.RecordBatch]) -> None:
        """Take batches that were appended into memory, their rows as they were planned; they stay."""
        self._published_bytes = self._writer.size
        self.tail.extend([facts for facts, _ in entries], pieces)

    def rollback(self) -> None:
        """Take back what was appended, without an error, since the last publication, synced or not.

        Raises:
            BucketFailedError: the file could not be cut; it is in doubt.
        """
        self._writer.rollback(self._published_bytes)

    def finish(self) -> ClosedTail:
        """Give back unused space, sync, close; return the rows.

        Raises:
            BucketFailedError: it failed, now or before.
        """
        self._writer.finish()
        return self._closed_tail()

    def close(self) -> None:
        """Close the file as it is; idempotent."""
        self._writer.close()

    def cut_unacknowledged(self) -> None:
        """Cut the file, durably, at the last published batch, whatever happened to it.

        Raises:
            OSError: as the disk gave it; try again.
        """
        self._writer.close()
        cut_segment(self._disk, self._writer.path, self._published_bytes)

    def span(self) -> Span | None:
        """Return the published rows as they are now, None without any."""
        rows = self.tail.snapshot()
        if not rows.rows:
            return None
        self._ends.cover(rows.rows)
        return Span(rows.start, rows.end, (Run(rows, self._ends),))

    def _closed_tail(self) -> ClosedTail:
        return ClosedTail(Run(self.tail.snapshot(), self._ends), self._schema, (self._name,), self.tail.bytes)
