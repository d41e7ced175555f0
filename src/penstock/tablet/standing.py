"""The standing of a bucket: whether it takes writes, and what a caller is told if it does not."""

from __future__ import annotations

from enum import Enum

from penstock.errors import BucketFailedError
from penstock.model.place.bucket import BucketId


class Stand(Enum):
    """The state of a bucket for writes. Reads of what was published go on in every state."""

    OPEN = "open"
    FAILED = "failed"
    """Log, index or ends are in doubt; a bucket that is reopened knows again what it has (I-8)."""
    CLOSED = "closed"
    """Finished in order: the node closes, or leads the bucket no more."""
    DROPPED = "dropped"
    """Let go with its table or partition; its files are about to be removed."""


_REFUSALS = {
    Stand.FAILED: "bucket takes no writes after an earlier failure; reopen it",
    Stand.CLOSED: "bucket is closed; open its table again",
    Stand.DROPPED: "bucket was dropped with its table or partition; write to another",
}


class Standing:
    """The stand of one bucket: open at first, then failed, closed or dropped, of which the first one counts.

    Changed by the committer, and by the thread that closes the table once the committer has ended.
    """

    def __init__(self, bucket: BucketId) -> None:
        self.stand = Stand.OPEN
        self.cause: BaseException | None = None
        """Why it failed."""
        self._bucket = bucket

    @property
    def takes_writes(self) -> bool:
        """Tell whether it is open."""
        return self.stand is Stand.OPEN

    def check(self) -> None:
        """Refuse all but an open bucket.

        Raises:
            BucketFailedError: it failed, or was closed or dropped.
        """
        if self.stand is not Stand.OPEN:
            raise BucketFailedError(_REFUSALS[self.stand], bucket=self._bucket) from self.cause

    def fail(self, cause: BaseException) -> None:
        """Take no more writes until the bucket is reopened."""
        self._leave(Stand.FAILED, cause)

    def close(self) -> None:
        """Take no more writes: the bucket was closed."""
        self._leave(Stand.CLOSED)

    def drop(self) -> None:
        """Take no more writes: the bucket was dropped."""
        self._leave(Stand.DROPPED)

    def _leave(self, stand: Stand, cause: BaseException | None = None) -> None:
        if self.stand is Stand.OPEN:
            self.stand, self.cause = stand, cause
