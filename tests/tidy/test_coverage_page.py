"""The page that says which files cover a module names modules and files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = [line for line in (ROOT / "tests/unit/README.md").read_text().splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("line", LINES)
def test_modules_and_files_exist(line: str) -> None:
    modules, files = (re.findall(r"`([^`]+)`", cell) for cell in line.split(" | "))

    assert [name for name in modules if not (ROOT / "src/penstock" / name).exists()] == []
    assert [name for name in files if not (ROOT / name).exists()] == []
    assert modules
    assert files
