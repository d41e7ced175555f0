"""Resident memory: for a million rows that were written and scanned once, and for each scan held open.

What runs in process is measured in a child; servers by their own processes, without what they share with others.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pyarrow as pa

from bench.agreement import agree
from bench.child import asked, run_child
from bench.contest import each_peer, figure, running
from bench.measurement import Figure, Score
from bench.peers.peer import OpensScans, Peer, Processes, Scans, Session
from bench.workload import Workload, rows

SCANS = 8


def run(work: Workload) -> list[Figure]:
    """Load, scan, hold scans open; report the growth."""
    return each_peer(work, _enter)


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
    said = run_child("bench.job_resident", peer, work, directory)
    said.check_returncode()
    sizes: dict[str, int] = json.loads(said.stdout.splitlines()[-1])
    return sizes


def _child() -> None:
    peer, work, directory = asked()
    with running(peer, directory):
        print(json.dumps(_measure(peer, work, None)))


if __name__ == "__main__":
    _child()
