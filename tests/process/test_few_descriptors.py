"""A process that may have 256 files open: a table with many more buckets than that works, and survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BUCKETS = 260
ROWS = 3_000

CHILD = """
import os, resource, signal, sys
import pyarrow as pa
import penstock

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
(target, place), (buckets, count, version), end = sys.argv[1:3], map(int, sys.argv[3:6]), sys.argv[6]
if place == "served":
    target = penstock.serve(target).url

with penstock.connect(target) as db:
    table = db.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)", buckets=buckets, if_not_exists=True)
    if version:
        assert set(table.scan().to_arrow()["v"].to_pylist()) == {version - 1}
    table.upsert(pa.table({"id": list(range(count)), "v": [version] * count}))
    found = table.scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == list(range(count))
    assert set(found["v"].to_pylist()) == {version}
    if end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def live(directory: Path, place: str, version: int, end: str) -> subprocess.CompletedProcess[str]:
    arguments = [str(directory), place, str(BUCKETS), str(ROWS), str(version), end]
    environment = os.environ | {"PENSTOCK_LOG_FSYNC": "never"}
    return subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, env=environment, check=False
    )


def stored_bytes(directory: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in directory.rglob("segment-*"))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("place", ["embedded", "served"])
def test_table_of_260_buckets_lives_and_is_killed_and_lives_again_with_256_descriptors(
    tmp_path: Path, place: str
) -> None:
    killed = live(tmp_path, place, 0, "killed")
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    # What segments reserve is little while they have few rows.
    assert stored_bytes(tmp_path) < BUCKETS * (40 << 10)

    closed = live(tmp_path, place, 1, "closed")
    assert closed.returncode == 0, closed.stdout + closed.stderr
    # Nothing is reserved by who is not there: a segment ends with its last batch, whose last byte is no zero.
    assert all(file.read_bytes()[-1] for file in tmp_path.rglob("segment-*"))
