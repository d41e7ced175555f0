"""What the C library does with memory that was freed.

By default it gives blocks of a megabyte or more back to the kernel at once, which hands them out again
page by page, each cleared at the first touch: for a process that reads and sends such blocks all day
that was a third of what its kernel time went into.
"""

from __future__ import annotations

import ctypes
from typing import Final

KEPT_BYTES_MAX: Final = 64 << 20
LARGE_BYTES_MIN: Final = 32 << 20
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> bool:
    """Keep freed memory for the next to ask, up to a bound, in this process; tell whether the C library can."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGE_BYTES_MIN) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES_MAX))
