"""A process that does a part of a job with one peer: to be killed, or to have its memory measured apart from ours."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

from bench.peers.peer import Peer
from bench.workload import Workload


def run_child(job: str, peer: Peer, work: Workload, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run this job's module as a program with the peer; return how it ended and what it printed."""
    arguments = [type(peer).__module__, str(directory), str(work.rows), str(work.batch_rows), str(work.seed)]
    command = [sys.executable, "-m", job, *arguments]
    return subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])


def asked() -> tuple[Peer, Workload, Path]:
    """Return, in the child, with whom and how much to do, and where."""
    module, directory, rows, batch_rows, seed = sys.argv[1:]
    peer: Peer = importlib.import_module(module).PEER
    return peer, Workload(int(rows), int(batch_rows), int(seed), Path(directory)), Path(directory)
