"""The log of a table in the segments of its buckets, on a disk.

A group is appended to the segment of each of its buckets, then these are synced side by side. A group that a disk
refuses anywhere is taken back everywhere before another follows; if it cannot be, none does: the last group alone
may be in some of its buckets only, and opening the table cuts it off (`tablet.files.group_cut`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.codec.stored.group_mark import GroupMark, encode_members
from penstock.engine.commit.shard_log import NotAppended, Parts
from penstock.engine.commit.sync_pool import SyncPool
from penstock.errors import BucketFailedError
from penstock.model.place.bucket import BucketId
from penstock.tablet.tablet import Tablet


class SegmentLog:
    """Implements `ShardLog`. Committer only."""

    def __init__(self, syncs: SyncPool) -> None:
        self._syncs = syncs
        self._tablets: Mapping[BucketId, Tablet] = {}
        self._number = -1
        self._doubt: list[Tablet] = []
        """Buckets that may have a part of a group which was not appended."""

    def lead(self, tablets: Mapping[BucketId, Tablet]) -> None:
        """Be the log of these buckets from now on; numbers go on behind the last group that they have."""
        added = (tablet.state.group for bucket, tablet in tablets.items() if self._tablets.get(bucket) is not tablet)
        self._number = max([self._number, *added])
        self._tablets = tablets

    def check(self) -> None:
        """Refuse while the last group is in doubt.

        Raises:
            BucketFailedError: it is.
        """
        if self._doubt:
            raise BucketFailedError(
                "table takes no writes: the disk did not let a failed one be taken back; reopen it",
                bucket=self._doubt[0].bucket,
            ) from self._doubt[0].standing.cause

    def append(self, parts: Parts) -> int:
        """Append a group and return its number; it is durable then, as the settings ask, and stays.

        Raises:
            NotAppended: it was taken back in all buckets, or is in doubt.
        """
        touched = [self._tablets[bucket] for bucket in parts]
        self._number += 1
        places = [(bucket.partition_id, bucket.bucket) for bucket in parts]
        mark = GroupMark(self._number, encode_members(places) if len(places) > 1 else b"")
        try:
            for tablet in touched:
                failing = tablet.bucket
                tablet.log.append(parts[failing], mark)
            errors = self._syncs.run_all([tablet.log.sync for tablet in touched])
        except (OSError, BucketFailedError) as error:
            causes: dict[BucketId, BaseException] = {failing: error}
        except BaseException:
            self._take_back(touched)
            raise
        else:
            causes = {t.bucket: error for t, error in zip(touched, errors, strict=True) if error is not None}
        if causes:
            self._take_back(touched)
            raise NotAppended(causes, in_doubt=bool(self._doubt))
        for tablet in touched:
            tablet.log.keep()
        return self._number

    def settle(self) -> None:
        """Take back what there may be of a group in doubt.

        Raises:
            BucketFailedError: the disk still refuses; the table takes no writes.
        """
        self._take_back(self._doubt)
        self.check()

    def _take_back(self, tablets: Iterable[Tablet]) -> None:
        self._doubt = list(tablets)
        self._doubt = [tablet for tablet in self._doubt if not tablet.log.take_back()]
