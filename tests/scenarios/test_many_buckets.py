"""A thousand buckets: opened and written without much memory, and with few files open at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc, os, resource, sys
from pathlib import Path
import pyarrow as pa
import penstock

PAGE = os.sysconf("SC_PAGE_SIZE")
# As little as any system gives a process; it may have more if it asks.
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def resident():
    gc.collect()
    pa.default_memory_pool().release_unused()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def files(directory):
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return sum("/tables/" in os.path.realpath(link) for link in links)


directory, buckets, rows = sys.argv[1], int(sys.argv[2]), 20_000
with penstock.connect(directory + "/warm") as warm:
    warm.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)").upsert([{"id": 1, "v": 1}])

with penstock.connect(directory + "/data") as connection:
    before = resident()
    table = connection.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)", buckets=buckets)
    assert len(table.cut()) == buckets
    print("empty", resident() - before)
    batch = pa.record_batch({"id": list(range(rows)), "v": [1] * rows})
    assert len(table.upsert(batch).offsets) == buckets
    print("written", resident() - before)

with penstock.connect(directory + "/data") as connection:
    before, opened = resident(), files(directory)
    table = connection.table("t")
    assert len(table.cut()) == buckets
    print("opened", resident() - before)
    print("files-at-open", files(directory) - opened)
    assert table.lookup([5, rows + 5]).column("_found").to_pylist() == [True, False]
    assert table.scan().to_arrow().num_rows == rows
    print("files-at-work", files(directory))
    print("used", resident() - before)
"""


def measure(directory: Path, buckets: int) -> dict[str, int]:
    environment = os.environ | {"PENSTOCK_LOG_FSYNC": "never"}
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory), str(buckets)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = dict(line.split() for line in finished.stdout.splitlines())
    return {name: int(value) for name, value in found.items()}


def test_thousand_buckets_cost_little_memory_and_few_files(tmp_path: Path) -> None:
    buckets = 1_000

    found = measure(tmp_path, buckets)

    print(found)
    # A bucket that was never written, then one with a tail in memory, then one opened from its log.
    assert found["empty"] < buckets * 20_000
    assert found["written"] < buckets * 100_000
    assert found["opened"] < buckets * 40_000
    assert found["used"] < buckets * 100_000
    assert found["files-at-open"] <= 512
    assert found["files-at-work"] <= 512
