"""The file that takes a bucket's batches.

What is kept is acknowledged; what was appended since may still be taken back, in whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.codec.stored.group_mark import GroupMark
from penstock.log.segment import SegmentWriter, cut_segment
from penstock.log.segment_header import SYNCED
from penstock.log.segment_writer import Entry
from penstock.tablet.files.bucket_files import BucketFiles
from penstock.tablet.schema import TabletSchema


class ActiveSegment:
    """The segment that takes a bucket's batches. Committer only; `sync` may run in another thread."""

    def __init__(
        self, files: BucketFiles, name: str, *, schema: TabletSchema, start: int, preallocate_bytes: int, synced: bool
    ) -> None:
        """Create the segment; it is durable, and empty, before this returns.

        `synced`: no batch is going to be kept that was not synced before.

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
        self.name = name
        self._kept_bytes = self._writer.size

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

    def keep(self) -> None:
        """Take it that what was appended stays."""
        self._kept_bytes = self._writer.size

    def rollback(self) -> None:
        """Take back what was appended, without an error, and not kept, synced or not.

        Raises:
            BucketFailedError: the file could not be cut; it is in doubt.
        """
        self._writer.rollback(self._kept_bytes)

    def finish(self) -> None:
        """Give back unused space, sync, close.

        Raises:
            BucketFailedError: it failed, now or before.
        """
        self._writer.finish()

    def close(self) -> None:
        """Close the file as it is; idempotent."""
        self._writer.close()

    def cut(self) -> None:
        """Cut the file, durably, behind the last batch that is kept, whatever happened to it.

        Raises:
            OSError: as the disk gave it; try again.
        """
        self._writer.close()
        cut_segment(self._disk, self._writer.path, self._kept_bytes)
