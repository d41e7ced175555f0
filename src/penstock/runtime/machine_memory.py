"""How much memory this process may take: the machine's, or less in a container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def machine_memory_bytes(*, cgroups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """Return the machine's memory, or the lowest limit of the control groups that this process is in."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(cgroups, own)])


def _limits(cgroups: Path, own: Path) -> Iterator[int]:
    for directory, name in _places(cgroups, own):
        # A limit holds for the groups below as well. In a container the path may be that of the host: its root counts.
        for place in (directory, *directory.parents):
            if place.is_relative_to(cgroups) and (limit := _limit(place / name)) is not None:
                yield limit


def _places(cgroups: Path, own: Path) -> Iterator[tuple[Path, str]]:
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            yield cgroups / path.lstrip("/"), "memory.max"
            yield cgroups / "unified" / path.lstrip("/"), "memory.max"
        elif "memory" in controllers.split(","):
            yield cgroups / "memory" / path.lstrip("/"), "memory.limit_in_bytes"


def _limit(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and int(text) > 0 else None
