"""The errors of a disk that cannot be read, in words that callers know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import UnavailableError


@contextmanager
def reading(bucket: object) -> Iterator[None]:
    """Map what the disk raises while a bucket is read.

    Raises:
        UnavailableError: the disk refused; the same call may succeed later.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, UnavailableError):
            raise
        raise UnavailableError("the disk refused the read; try again", bucket=bucket, error=str(error)) from error
