"""Reading works through Spark Connect as it does without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

CHILD = Path(__file__).with_name("connect_reads.py")
SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.slow
def test_reads_streams_and_joins_work_through_connect(url: str, orders: penstock.Table) -> None:
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "SPARK_LOCAL_IP": "127.0.0.1"}

    done = subprocess.run(
        [sys.executable, str(CHILD), url, orders.path],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env=environment,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "counted": [990, 990],
        "streamed": 990,
        "joined": 2,
        "changes": 1050,
    }
