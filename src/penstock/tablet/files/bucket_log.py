"""The log of one bucket in segments: where its changes become durable.

What was appended is taken back or kept, in whole: `keep` is the point from which on it stays. After a failed sync
it is not known what the disk has: the bucket's standing is failed then, and the log refuses until it is reopened.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.codec.stored.group_mark import NO_GROUP, GroupMark
from penstock.errors import BucketFailedError
from penstock.log.segment_writer import Entry
from penstock.tablet.files.active_segment import ActiveSegment
from penstock.tablet.files.bucket_files import BucketFiles
from penstock.tablet.schema import TabletSchema
from penstock.tablet.settings import FsyncMode, TabletSettings
from penstock.tablet.standing import Standing


class BucketLog:
    """The segments of a bucket, the last of which takes batches. Committer only; `sync` may run in another thread."""

    def __init__(
        self, files: BucketFiles, schema: TabletSchema, settings: TabletSettings, *, end: int, standing: Standing
    ) -> None:
        """Begin behind what was found: the next batch starts at `end`, and opens a segment of that schema."""
        self.schema = schema
        self._files = files
        self._settings = settings
        self._standing = standing
        self._end = end
        """Behind the last batch that is kept."""
        self._appended_end = end
        self._active: ActiveSegment | None = None
        self._next_name: str | None = None

    @property
    def wants_roll(self) -> bool:
        """Tell whether the active segment is as large as it may be."""
        return self._active is not None and self._active.bytes >= self._settings.segment_bytes

    def append(self, entries: Sequence[Entry], group: GroupMark = NO_GROUP) -> None:
        """Append log batches, what a group has for this bucket, not durable yet. All or none.

        Raises:
            OSError: nothing was appended.
            BucketFailedError: the log is in doubt; reopen the bucket.
        """
        self._standing.check()
        active = self._active or self._open_segment()
        try:
            active.append(entries, group)
        except BucketFailedError as error:
            self._standing.fail(error)
            raise
        self._appended_end = entries[-1][0].end_offset

    def sync(self) -> None:
        """Make what was appended durable, as the settings ask.

        Raises:
            BucketFailedError: it is not known what is durable; the bucket takes no more writes.
        """
        if self._settings.fsync is FsyncMode.ALWAYS:
            self.sync_now()

    def sync_now(self) -> None:
        """Make what was appended durable, whatever the settings ask.

        Raises:
            BucketFailedError: it failed, now or before: what the bucket believes may be more than is durable.
        """
        self._standing.check()
        if self._active is None:
            return
        try:
            self._active.sync()
        except BucketFailedError as error:
            self._standing.fail(error)
            raise

    def keep(self) -> None:
        """Take it that what was appended stays: it is never taken back."""
        if self._active is not None:
            self._active.keep()
            self._end = self._appended_end

    def take_back(self) -> bool:
        """Take back everything that was appended and not kept, durably; tell whether that is done.

        A log that is in doubt is cut off before it; the bucket takes no writes until it is reopened.
        """
        self._appended_end = self._end
        if self._active is None:
            return True
        try:
            if self._standing.takes_writes:
                self._active.rollback()
                return True
        except BucketFailedError as error:
            self._standing.fail(error)
        try:
            self._active.cut()
        except OSError:
            return False
        return True

    def finish(self) -> str | None:
        """Finish the active segment and return its name, None without one; the next write starts another.

        Raises:
            BucketFailedError: the segment could not be finished.
        """
        if self._active is None:
            return None
        self._standing.check()
        try:
            self._active.finish()
        except BucketFailedError as error:
            self._standing.fail(error)
            raise
        name, self._active = self._active.name, None
        return name

    def close(self) -> None:
        """Close the active segment as it is; idempotent."""
        if self._active is not None:
            self._active.close()

    def cut_unacknowledged(self) -> None:
        """Cut the log behind what is kept, durably, before a failed bucket is reopened.

        Raises:
            OSError: as the disk gave it; try again.
        """
        if self._active is not None:
            self._active.cut()
            self._active = None

    def _open_segment(self) -> ActiveSegment:
        if self._next_name is None:
            self._next_name = self._files.new_name("segment")
        else:
            # An attempt that failed may have left its file; half a segment is understood only as the last one.
            self._files.remove([self._next_name])
        self._active = ActiveSegment(
            self._files,
            self._next_name,
            schema=self.schema,
            start=self._end,
            preallocate_bytes=self._settings.segment_bytes,
            synced=self._settings.fsync is FsyncMode.ALWAYS,
        )
        self._next_name = None
        return self._active
