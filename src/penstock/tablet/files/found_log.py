"""The log of a bucket as the disk has it, before the bucket is opened.

Nothing is changed by finding it. The buckets of a table are found together, so that a group of which only some
have their part can be taken off (`group_cut`) before any bucket shows it.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.codec.stored.group_mark import GroupMark
from penstock.codec.stored.manifest import Manifest
from penstock.errors import CorruptionError
from penstock.log.segment import Segment, cut_segment, read_segment
from penstock.log.segment_header import SYNCED
from penstock.tablet.files.bucket_files import BucketFiles
from penstock.tablet.files.durable import Durable


class FoundLog:
    """The manifest and the segments of a bucket, as they were found.

    `start` is where the log in segments begins, `applied` how far the index knows it.
    """

    def __init__(self, files: BucketFiles, *, first_offset: int, applied: int, durable: Durable) -> None:
        """Find the log.

        Raises:
            CorruptionError: stored bytes are not what was written.
            UnsupportedError: a newer version wrote them.
            OSError: as the disk gave it.
        """
        files.sync_names()
        self.files = files
        self.manifest: Manifest | None = files.newest_manifest()
        self.start = first_offset if self.manifest is None else self.manifest.log_start
        self.applied = applied
        self._durable = durable
        self._forgiven = -1
        self.segments: list[tuple[str, Segment]] = []
        self._sealed: list[str] = []
        self._unfinished: str | None = None
        self._find_segments()
        self._check_whole()

    @property
    def group(self) -> int:
        """Return the last group that the bucket has a part of, -1 for none."""
        groups = [segment.groups[-1].number for _, segment in self.segments if segment.groups]
        return max([-1 if self.manifest is None else self.manifest.group, self._forgiven, *groups])

    @property
    def whole_group(self) -> int:
        """Return the last group of which the bucket has all that it is to have."""
        last = next((segment.groups[-1] for _, segment in reversed(self.segments) if segment.groups), None)
        return self.group - 1 if last is not None and last.goes_on and self._forgiven < self.group else self.group

    @property
    def may_have_lost(self) -> bool:
        """Tell whether a power loss may have taken what was acknowledged.

        Only of the last segment: the others were finished with a sync. While the machine runs nothing that was
        written is lost, whichever process was killed.
        """
        return bool(self.segments) and self.segments[-1][1].boot not in {SYNCED, self.files.disk.boot_id()}

    @property
    def may_lack_groups(self) -> bool:
        """Tell whether a power loss may have taken groups that were acknowledged, also if others followed since."""
        known = {SYNCED, self.files.disk.boot_id()}
        return any(segment.boot not in known for _, segment in self.segments)

    def forgive(self, number: int) -> None:
        """Take it that the bucket has nothing of a group any more: its next manifest says so."""
        self._forgiven = max(self._forgiven, number)

    def marks(self) -> Iterator[GroupMark]:
        """Yield the groups of several buckets of which a part is in segments."""
        for _, segment in self.segments:
            for mark in segment.groups:
                if mark.members and not mark.goes_on:
                    yield mark

    def can_cut(self, number: int) -> bool:
        """Tell whether a group that the bucket has may never have been shown: nothing younger knows it."""
        if not self.segments or self.group != number:
            return False
        start = self.segments[-1][1].before_group(number).end_offset
        return start >= self._durable_end() and (self.manifest is None or self.manifest.group < number)

    def cut(self, number: int) -> None:
        """Leave off the last group; `finish` makes it so."""
        name, segment = self.segments[-1]
        self.segments[-1] = (name, segment.before_group(number))

    def limit(self, number: int) -> bool:
        """Leave off every group above a number; False if some of those may be in data files already.

        Only for who changes nothing on the disk: others leave off no more than the last group.
        """
        if self.manifest is not None and self.manifest.group > number:
            return False
        cut = [(name, segment.up_to_group(number)) for name, segment in self.segments]
        self.segments = [(name, segment) for name, segment in cut if segment.batches]
        return True

    def finish(self) -> None:
        """Make durable what the log is to be: cut a torn tail, and what was left off.

        Raises:
            OSError: as the disk gave it; find the log again.
        """
        self.files.remove(self._sealed)
        if self._unfinished is not None:
            # Behind a younger segment it could not be told any more that its creation never finished.
            self.files.remove_durably(self._unfinished)
        elif self.segments:
            name, segment = self.segments[-1]
            cut_segment(self.files.disk, self.files.path(name), segment.valid_bytes)

    def _find_segments(self) -> None:
        files, start = self.files, self.start
        names = files.names("segment")
        for name in names:
            segment = read_segment(files.disk, files.path(name), last=name == names[-1], durable_end=None)
            if segment is None:
                self._unfinished = name
            elif segment.bucket != files.bucket:
                raise CorruptionError("segment belongs to another bucket", file=files.path(name), bucket=segment.bucket)
            elif self.manifest is not None and segment.end_offset <= start and segment.base_offset < start:
                self._sealed.append(name)
            else:
                self.segments.append((name, segment))

    def _durable_end(self) -> int:
        """Return how far the log is known to have been durable."""
        known = max(self.start if self.manifest is None else self.manifest.durable_end, self._durable.always)
        if not self.segments or self.segments[-1][1].boot == SYNCED:
            # Index and owners were written after the log was synced.
            return max(known, self._durable.with_syncs, self.applied)
        return known

    def _check_whole(self) -> None:
        end = self.start
        for _, segment in self.segments:
            if segment.base_offset != end:
                raise CorruptionError(
                    "log has a gap; restore it",
                    directory=self.files.directory,
                    base_offset=segment.base_offset,
                    expected=end,
                )
            end = segment.end_offset
        if end < self._durable_end():
            raise CorruptionError(
                "log ends before what was durable; restore it",
                directory=self.files.directory,
                end_offset=end,
                durable_end=self._durable_end(),
            )
