"""Recovery after kill -9: how long until a table whose process was killed answers with every row.

Servers are killed and started again. What runs in process is written by a child that kills itself, and opened here.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.agreement import agree, fingerprint
from bench.contest import figure
from bench.expected import rows_after
from bench.loading import load
from bench.measurement import Figure, Score
from bench.peers.peer import Peer, Processes, Scans, Transport
from bench.workload import SCHEMA, Workload

JOB = "recovery after kill -9"


def run(work: Workload) -> list[Figure]:
    """Load, kill, and time the way back to the first answer."""
    figures: list[Figure] = []
    for peer in work.peers:
        if not peer.bounds and peer.transport is not Transport.FILES:
            figures += _enter(peer, work)
    return figures


def _enter(peer: Peer, work: Workload) -> Iterator[Figure]:
    with work.directory() as directory:
        if isinstance(peer, Processes):
            peer.start(directory)
            try:
                with closing(peer.session()) as session:
                    load(session, work)
                peer.kill()
            except BaseException:
                peer.stop()
                raise
        else:
            _write_in_child(peer, work, directory)
        start = time.perf_counter()
        peer.start(directory)
        try:
            with closing(peer.session()) as session:
                assert isinstance(session, Scans)
                agree(JOB, session.scan(["id"]).num_rows, work.rows)
                seconds = time.perf_counter() - start
                agree(JOB, fingerprint(session.scan(SCHEMA.names)), rows_after(work, 0))
        finally:
            peer.stop()
        yield figure(peer, Score(JOB, "ms", 1000 * seconds, less_is_better=True))


def _write_in_child(peer: Peer, work: Workload, directory: Path) -> None:
    module = type(peer).__module__
    arguments = [module, str(directory), str(work.rows), str(work.batch_rows), str(work.seed)]
    command = [sys.executable, "-m", "bench.job_restart", *arguments]
    done = subprocess.run(command, check=False, cwd=Path(__file__).parents[1])
    agree(f"the end of the child of {peer.name}", done.returncode, -signal.SIGKILL)


def _die_after_load() -> None:
    module, directory, rows, batch_rows, seed = sys.argv[1:]
    peer: Peer = importlib.import_module(module).PEER
    peer.start(Path(directory))
    load(peer.session(), Workload(int(rows), int(batch_rows), int(seed), Path(directory)))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _die_after_load()
