"""How many files the process may have open, and who may have how many of them."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Final

OPEN_FILES_WANTED: Final = 65_536


@dataclass(frozen=True, slots=True)
class OpenFileShares:
    """How many files the key index, readers of data files, and segments that are written may keep open.

    The rest is for connections, metadata, and files that are open for the length of a step.
    """

    index: int
    readers: int
    segments: int


def allow_open_files(wanted: int = OPEN_FILES_WANTED) -> int:
    """Raise the process's own limit towards `wanted`, as far as the system lets it; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    reachable = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if reachable > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))
    return max(soft, reachable)


def share_open_files(limit: int) -> OpenFileShares:
    """Divide what the process may have open."""
    return OpenFileShares(
        index=min(max(limit // 4, 64), 512), readers=min(max(limit // 8, 16), 512), segments=max(limit // 4, 16)
    )
