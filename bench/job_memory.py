"""Resident memory: rows inserted and scanned in a process of their own, beside the bytes of the rows in Arrow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.measurement import Measurement
from bench.workload import Workload

_CHILD = """
import json, resource, sys, time, numpy as np, penstock
from pathlib import Path
from bench.workload import SCHEMA, Workload, rows
data, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
empty = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
arrow = 0
with penstock.connect(data) as conn:
    table = conn.create_table("bench", SCHEMA, primary_key=["id"], buckets=2)
    for start in range(0, count, size):
        batch = rows(np.arange(start, min(start + size, count)))
        arrow += batch.nbytes
        table.upsert(batch)
    scanned = sum(batch.num_rows for batch in table.scan())
    assert scanned == count, scanned
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"empty": empty * 1024, "peak": peak * 1024, "arrow": arrow}))
"""


def run(work: Workload) -> list[Measurement]:
    """Insert and scan; report the peak of resident memory."""
    with work.directory() as directory:
        arguments = [str(directory / "data"), str(work.rows), str(work.batch_rows)]
        said = subprocess.run(
            [sys.executable, "-c", _CHILD, *arguments],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[1],
        ).stdout
    sizes = json.loads(said)
    return [
        Measurement(
            "peak resident memory, insert + scan",
            "MB",
            sizes["peak"] / 1e6,
            "the rows in Arrow, MB",
            sizes["arrow"] / 1e6,
        )
    ]
