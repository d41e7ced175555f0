"""How many files the process may have open: a bucket that is written keeps one."""

from __future__ import annotations

import resource
from typing import Final

OPEN_FILES_WANTED: Final = 65_536


def allow_open_files(wanted: int = OPEN_FILES_WANTED) -> int:
    """Raise the process's own limit towards `wanted`, as far as the system lets it; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    reachable = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if reachable > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))
    return max(soft, reachable)
