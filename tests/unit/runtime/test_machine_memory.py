import os
from pathlib import Path

import pytest

from penstock.runtime.machine_memory import machine_memory_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MB = 1 << 20


def found(root: Path, own: str, limits: dict[str, str]) -> int:
    groups = root / "cgroup"
    for path, text in limits.items():
        (groups / path).parent.mkdir(parents=True, exist_ok=True)
        (groups / path).write_text(text + "\n")
    (root / "own").write_text(own + "\n")
    return machine_memory_bytes(cgroups=groups, own=root / "own")


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("0::/", {"memory.max": "max"}, MACHINE),
        ("0::/", {"memory.max": str(64 * MB)}, 64 * MB),
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": str(32 * MB)}, 32 * MB),
        ("0::/a/b", {"a/b/memory.max": str(16 * MB), "a/memory.max": str(32 * MB)}, 16 * MB),
        ("0::/path/of/the/host", {"memory.max": str(48 * MB)}, 48 * MB),
        ("4:memory:/a\n0::/", {"memory/a/memory.limit_in_bytes": str(24 * MB)}, 24 * MB),
        ("4:memory:/host\n0::/", {"memory/memory.limit_in_bytes": str(24 * MB)}, 24 * MB),
        ("4:cpu,memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, MACHINE),
        ("", {}, MACHINE),
        ("broken", {}, MACHINE),
    ],
)
def test_lowest_limit_of_all_groups_counts(tmp_path: Path, own: str, limits: dict[str, str], expected: int) -> None:
    assert found(tmp_path, own, limits) == expected


def test_system_without_groups_has_its_memory(tmp_path: Path) -> None:
    assert machine_memory_bytes(cgroups=tmp_path, own=tmp_path / "own") == MACHINE
