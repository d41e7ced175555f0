"""The Python in README and documentation runs as it stands, and prints what it says it prints.

A block of the README stands alone. The blocks of a page of the documentation are one session.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.java import java_home

REPOSITORY = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
PROMISE = re.compile(r"^\s*# -> (.*)$", re.M)
BLOCKS = BLOCK.findall((REPOSITORY / "README.md").read_text())
PAGES = ["tutorial.md", "guide/tables.md", "guide/scans.md", "guide/failures.md"]


def run(code: str, directory: Path) -> list[str]:
    """Run code in a fresh interpreter of an activated environment; return the lines it printed."""
    activated = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory,
        env=os.environ | {"PATH": activated, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_readme_has_an_example_for_python_and_one_for_spark() -> None:
    assert all(PROMISE.search(block) for block in BLOCKS)
    assert ["penstock.spark" in block for block in BLOCKS] == [False, True]


@pytest.mark.parametrize("block", BLOCKS, ids=range(1, len(BLOCKS) + 1))
def test_readme_block_prints_what_it_promises(block: str, tmp_path: Path) -> None:
    assert run(block, tmp_path) == PROMISE.findall(block)


@pytest.mark.parametrize("page", PAGES)
def test_page_prints_what_it_promises(page: str, tmp_path: Path) -> None:
    session = "\n".join(BLOCK.findall((REPOSITORY / "docs" / page).read_text()))

    assert session
    assert run(session, tmp_path) == PROMISE.findall(session)


def test_failing_block_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run("1 / 0", tmp_path)
