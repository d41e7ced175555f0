"""Recovery: open a table whose process was killed, beside reading the same bytes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import penstock
from bench.measurement import Measurement, timed
from bench.workload import Workload

_CHILD = """
import os, sys, penstock
from pathlib import Path
from bench.workload import SCHEMA, Workload
work = Workload(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[1]))
conn = penstock.connect(sys.argv[1])
table = conn.create_table("bench", SCHEMA, primary_key=["id"])
for batch in work.batches():
    table.upsert(batch)
os.kill(os.getpid(), 9)
"""


def run(work: Workload) -> list[Measurement]:
    """Write in a child that is killed with SIGKILL, then open and count."""
    with work.directory() as directory:
        data = directory / "data"
        arguments = [str(data), str(work.rows), str(work.batch_rows), str(work.seed)]
        subprocess.run([sys.executable, "-c", _CHILD, *arguments], check=False, cwd=Path(__file__).parents[1])

        with ExitStack() as opening:

            def recover() -> None:
                conn = opening.enter_context(penstock.connect(data))
                assert conn.table("bench").stats().live_rows == work.rows

            opened = timed(recover, repeats=1)
        files = [path for path in (data / "tables").rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        read = timed(lambda: [path.read_bytes() for path in files])
    return [
        Measurement(
            "recovery after kill -9", "rows/s", opened.rate(work.rows), "reading its files", read.rate(work.rows)
        ),
        Measurement(
            "recovery after kill -9",
            "MB/s",
            size / 1e6 / opened.seconds,
            "reading its files",
            size / 1e6 / read.seconds,
        ),
    ]
