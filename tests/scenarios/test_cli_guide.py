"""The session in the guide runs as it stands, and writes what the guide says it writes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "cli.md"
BLOCKS = re.findall(r"^```console\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)


def test_guide_session_writes_what_it_says(tmp_path: Path) -> None:
    lines = "".join(BLOCKS).replace("\\\n", " ").splitlines()
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    promised = [line for line in lines if not line.startswith("$ ")]
    # The command of this environment, whatever else is on the PATH.
    shell = (
        f'set -eo pipefail\npenstock() {{ "{sys.executable}" -c "from penstock.cli.main import main; main()" "$@"; }}\n'
    )

    done = subprocess.run(
        ["bash", "-c", shell + "\n".join(commands)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ | {"COLUMNS": "200"},
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == promised
