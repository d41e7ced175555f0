"""The whole demo: real Spark, a real server, both killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

START = "from penstock.cli.main import main; main()"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_demo_ends_exact(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START, "demo", "--orders", "10000", "--keep", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "EXACT" in done.stdout
    assert "of its rows visible" in done.stderr
    assert "server is back" in done.stderr
