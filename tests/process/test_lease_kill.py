"""Kill a process at random moments of lease operations: no acknowledged lease is lost, and none is leaked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from tests.kit.waiting import go_on_for, wait_until

import penstock
from penstock.tablet.snapshots.stored_snapshot import StoredSnapshot

ROWS = 20
ROUNDS = 8


def run_and_kill(directory: Path, random: Random) -> list[dict[str, Any]]:
    """Start a child, kill it while it works, and return what it said."""
    source = str(Path(penstock.__path__[0]).parent)
    child = Path(__file__).with_name("lease_child.py")
    process = subprocess.Popen(
        [sys.executable, str(child), str(directory), str(random.randint(0, 1 << 30))],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": source},
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(random.randint(1, 30))]
    # A moment inside of an operation, rather than right after one.
    go_on_for(random.random() * 0.02)
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.readlines()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def test_kill_at_any_moment_loses_no_acknowledged_lease_and_leaks_none(tmp_path: Path) -> None:
    seed = 11
    print(f"seed={seed}")
    random = Random(seed)
    data = tmp_path / "data"
    for _ in range(ROUNDS):
        check(data, run_and_kill(data, random))


def check(data: Path, said: list[dict[str, Any]]) -> None:
    expected: dict[str, int | None] = {}
    for line in said:
        if line["word"] == "done":
            match line["operation"]:
                case "latest" | "cut":
                    expected[line["lease"]] = line["offset"]
                case "release":
                    expected[line["lease"]] = None
                case "drop":
                    del expected[line["lease"]]
    doubtful = said[-1]["lease"] if said and said[-1]["word"] == "begin" else None
    with penstock.connect(data, settings={"kv.snapshot.interval": "1h", "kv.scanner.ttl": "10ms"}) as connection:
        table = connection.table("t")
        found = {lease.id: lease for lease in connection.list_leases()}
        assert found.keys() - {doubtful} == expected.keys() - {doubtful}
        for lease_id, lease in found.items():
            offsets = [snapshot.offset for snapshot in lease.snapshots.values()]
            if lease_id != doubtful:
                offset = expected[lease_id]
                assert offsets == ([] if offset is None else [offset])
            for snapshot in lease.snapshots.values():
                rows = [table.scan(lease=lease).to_arrow()]
                if snapshot.id is not None:
                    with StoredSnapshot(data, snapshot.path) as stored:
                        rows.append(stored.to_arrow())
                for read in rows:
                    assert read.num_rows == ROWS
                    assert set(read["v"].to_pylist()) == {snapshot.offset // ROWS}
            lease.drop()
        wait_until(lambda: len(list(data.rglob("snapshot-*"))) <= 2)
        pins = {name for bucket in table.stats().buckets for name in bucket.pins}
        assert not any(name.startswith(("lease-", "acquiring-")) for name in pins)
        assert connection.list_leases() == []
