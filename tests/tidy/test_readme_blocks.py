"""Every Python block of the README runs as it stands, and prints what it says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
PROMISE = re.compile(r"^\s*# -> (.*)$", re.M)
BLOCKS = BLOCK.findall(README.read_text())


def run(block: str, directory: Path) -> list[str]:
    """Run a block in a fresh interpreter and return the lines it printed."""
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=directory, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_readme_has_an_example_that_promises_output() -> None:
    assert any(PROMISE.search(block) for block in BLOCKS)


@pytest.mark.parametrize("block", BLOCKS, ids=range(1, len(BLOCKS) + 1))
def test_readme_block_prints_what_it_promises(block: str, tmp_path: Path) -> None:
    assert run(block, tmp_path) == PROMISE.findall(block)


def test_failing_block_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run("1 / 0", tmp_path)
