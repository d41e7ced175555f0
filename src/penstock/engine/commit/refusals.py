"""The error that a caller gets for what the disk refused."""

from __future__ import annotations

import errno

from penstock.errors import DiskFullError, PenstockError, UnavailableError
from penstock.model.place.bucket import BucketId


def refusal(error: OSError, bucket: BucketId) -> PenstockError:
    """Return the error of a write that the disk refused before anything of it was written."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        refused: PenstockError = DiskFullError("no space left; free some and write again", bucket=bucket)
    else:
        refused = UnavailableError("disk refused the write; nothing was written", bucket=bucket, error=str(error))
    refused.__cause__ = error
    return refused
