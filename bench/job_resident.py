"""Resident memory: for a million rows that were written and scanned once, and for each scan held open.

What runs in process is measured in a child; servers by their own processes, without what they share with others.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pyarrow as pa

from bench.agreement import agree
from bench.contest import figure, running
from bench.measurement import Figure, Score
from bench.peers.peer import OpensScans, Peer, Processes, Scans, Session, Transport
from bench.workload import Workload, rows

SCANS = 8


def run(work: Workload) -> list[Figure]:
    """Load, scan, hold scans open; report the growth."""
    figures: list[Figure] = []
    for peer in work.peers:
        if not peer.bounds and peer.transport is not Transport.FILES:
            figures += _enter(peer, work)
    return figures


def _enter(peer: Peer, work: Workload) -> Iterator[Figure]:
    with work.directory() as directory:
        if isinstance(peer, Processes):
            with running(peer, directory):
                sizes = _measure(peer, work, peer)
        else:
            sizes = _in_child(peer, work, directory)
    per_million = sizes["loaded"] / 1e6 / (work.rows / 1e6)
    yield figure(peer, Score("memory, per million rows", "MB", per_million, less_is_better=True))
    if "held" in sizes:
        per_scan = sizes["held"] / 1e6 / SCANS
        yield figure(peer, Score("memory, per open scan", "MB", per_scan, less_is_better=True))


def _measure(peer: Peer, work: Workload, processes: Processes | None) -> dict[str, int]:
    with closing(peer.session()) as session:
        session.create()
        empty = _resident(processes)
        _load(session, work)
        loaded = _resident(processes)
        sizes = {"loaded": loaded - empty}
        if isinstance(session, OpensScans):
            held = [session.open_scan() for _ in range(SCANS)]
            for scan in held:
                next(scan)
            sizes["held"] = max(_resident(processes) - loaded, 0)
    return sizes


def _load(session: Session, work: Workload) -> None:
    # Batch by batch: the rows must not stay in the process that is measured.
    ids = work.ids()
    for at in range(0, len(ids), work.batch_rows):
        session.upsert(rows(ids[at : at + work.batch_rows]))
    assert isinstance(session, Scans)
    agree("the table whose memory is measured", session.scan(["id"]).num_rows, work.rows)


def _resident(processes: Processes | None) -> int:
    gc.collect()
    pa.default_memory_pool().release_unused()
    pids = processes.pids() if processes is not None else [os.getpid()]
    return sum(psutil.Process(pid).memory_full_info().pss for pid in pids)


def _in_child(peer: Peer, work: Workload, directory: Path) -> dict[str, int]:
    arguments = [type(peer).__module__, str(directory), str(work.rows), str(work.batch_rows), str(work.seed)]
    command = [sys.executable, "-m", "bench.job_resident", *arguments]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    sizes: dict[str, int] = json.loads(said.stdout.splitlines()[-1])
    return sizes


def _child() -> None:
    module, directory, count, batch_rows, seed = sys.argv[1:]
    peer: Peer = importlib.import_module(module).PEER
    with running(peer, Path(directory)):
        work = Workload(int(count), int(batch_rows), int(seed), Path(directory))
        print(json.dumps(_measure(peer, work, None)))


if __name__ == "__main__":
    _child()
