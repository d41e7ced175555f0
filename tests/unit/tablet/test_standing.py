"""Whether a bucket takes writes: four states, of which the first to be left counts."""

from __future__ import annotations

import pytest

from penstock.errors import BucketFailedError
from penstock.model.place.bucket import BucketId
from penstock.tablet.standing import Stand, Standing

BUCKET = BucketId(1, 0, 0)


def test_open_bucket_takes_writes() -> None:
    standing = Standing(BUCKET)

    standing.check()

    assert standing.takes_writes


def test_failed_bucket_refuses_and_says_why() -> None:
    standing, cause = Standing(BUCKET), OSError("the disk is broken")

    standing.fail(cause)

    assert not standing.takes_writes
    with pytest.raises(BucketFailedError, match="reopen") as raised:
        standing.check()
    assert raised.value.__cause__ is cause


@pytest.mark.parametrize(("stand", "words"), [(Stand.CLOSED, "is closed"), (Stand.DROPPED, "was dropped")])
def test_closed_and_dropped_buckets_refuse_in_their_own_words(stand: Stand, words: str) -> None:
    standing = Standing(BUCKET)

    if stand is Stand.CLOSED:
        standing.close()
    else:
        standing.drop()

    with pytest.raises(BucketFailedError, match=words):
        standing.check()


def test_first_state_stays() -> None:
    standing, cause = Standing(BUCKET), OSError("the disk is broken")
    standing.fail(cause)

    standing.close()
    standing.fail(OSError("another"))

    assert (standing.stand, standing.cause) == (Stand.FAILED, cause)
