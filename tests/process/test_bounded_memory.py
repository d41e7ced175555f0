"""A bound on memory holds while rows are written and compacted, and in the start after a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 1_500_000

CHILD = """
import os, signal, sys
import numpy as np
import pyarrow as pa
import penstock

def peak():
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    return int(status["VmHWM"].split()[0]) >> 10

directory, phase, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
text = pa.array(["some text of a row, which is as long as such texts often are"] * 50_000)

with penstock.connect(f"{directory}/{phase}") as db:
    table = db.create_table("t", "id BIGINT, s STRING, PRIMARY KEY (id)")
    table.upsert(pa.table({"id": np.arange(50_000), "s": text}))
    assert sum(batch.num_rows for batch in table.scan()) == 50_000
print(peak())
with penstock.connect(f"{directory}/data", settings={"memory.max": "64MB", "log.fsync": "never"}) as db:
    table = db.create_table("t", "id BIGINT, s STRING, PRIMARY KEY (id)", buckets=2, if_not_exists=True)
    if phase == "write":
        for start in range(0, rows, 50_000):
            table.upsert(pa.table({"id": np.arange(start, start + 50_000), "s": text}))
            if start == rows // 2:
                db._link.node.maintenance.compact_now(db._link.node._tables.get(1))
    else:
        assert sum(batch.num_rows for batch in table.scan(columns=["id"])) == rows
    print(peak(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def extra_mb(directory: Path, phase: str) -> int:
    """Return how much more memory a process took than one does that writes and reads a little."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(directory), phase, str(ROWS)], capture_output=True, text=True, check=False
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    small, peak = map(int, child.stdout.split())
    print(f"{phase}: small={small}MB peak={peak}MB")
    return peak - small


@pytest.mark.timeout(180)
def test_writes_compaction_and_the_start_after_a_kill_stay_within_the_bound(tmp_path: Path) -> None:
    # Calls of 50,000 rows take some memory of their own. Without the bound it is some 300 MB, and grows with the rows.
    assert extra_mb(tmp_path, "write") < 200
    assert extra_mb(tmp_path, "read") < 200
