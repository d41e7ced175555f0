"""The seam between a table and the home of its log: what makes a group of writes durable.

The committer appends groups here and knows nothing of files; a bucket keeps what follows from its log: the rows in
memory, the ends, the index. `SegmentLog` is the log's home today.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from penstock.engine.commit.refusals import refusal
from penstock.errors import BucketFailedError, PenstockError, UnavailableError
from penstock.model.place.bucket import BucketId
from penstock.tablet.tablet import Entry, Tablet

Parts = Mapping[BucketId, Sequence[Entry]]
"""A group as the log takes it: the batches of each bucket, in offset order."""


class ShardLog(Protocol):
    """The log of one table. Used by its committer only, which appends a group when the one before has ended.

    What another home for the log must promise:

    1. `append` returns when the group is durable in all of its buckets, as durable as the table's settings ask. From
       then on an opening of the table finds it, whole, until its buckets have sealed the rows and let go of them.
    2. A group ends in one of three ways: it is there; or `NotAppended`, and nothing of it is ever found; or
       `NotAppended` in doubt: an opening of the table finds it whole or not at all. Nothing else is raised.
    3. Only the last group can be in doubt. Until `settle` returns, `check` and `append` refuse.
    4. Groups stand in the order in which they were appended. Their numbers grow, also over a reopening, and a
       number is that of one group only; one that is not there may leave a gap.
    5. A group of one leader never follows that of a later one: a log that learns of a later leader raises
       `NotAppended`, and goes on doing so.
    6. The rows are not changed, and are not needed, once `append` has ended.
    """

    def lead(self, tablets: Mapping[BucketId, Tablet]) -> None:
        """Be the log of these buckets from now on; numbers go on behind the last group that they have."""

    def check(self) -> None:
        """Refuse while the last group is in doubt.

        Raises:
            BucketFailedError: it is.
        """

    def append(self, parts: Parts) -> int:
        """Append a group and return its number; it is durable then, and stays.

        Raises:
            NotAppended: it is not in the log, or in doubt.
        """

    def settle(self) -> None:
        """Take back what there may be of a group in doubt.

        Raises:
            BucketFailedError: it is still in doubt.
        """


class NotAppended(Exception):  # noqa: N818 - an outcome that the committer tells each caller in its own words
    """A group is not in the log. `causes` says why, by bucket; `in_doubt`, that it may be found there after all."""

    def __init__(self, causes: Mapping[BucketId, BaseException], *, in_doubt: bool) -> None:
        super().__init__(f"group was not appended causes={dict(causes)} in_doubt={in_doubt}")
        self.causes = causes
        self.in_doubt = in_doubt

    def told(self, buckets: Collection[BucketId]) -> PenstockError:
        """Return what the caller of a write to these buckets is told."""
        hit = [bucket for bucket in buckets if bucket in self.causes] or list(self.causes)
        cause = self.causes[hit[0]]
        if self.in_doubt:
            told: PenstockError = BucketFailedError(
                "the bucket failed, and the disk did not let the write be taken back; reopen the table, "
                "the write is in it whole or not at all then",
                failed=hit,
                applied={},
            )
        elif isinstance(cause, OSError):
            told = refusal(cause, hit[0])
        elif hit[0] in buckets:
            told = BucketFailedError("the bucket failed; nothing was written, reopen it", failed=hit, applied={})
        else:
            told = UnavailableError("a write beside this one failed; nothing was written, try again", failed=hit)
        told.__cause__ = cause
        return told
