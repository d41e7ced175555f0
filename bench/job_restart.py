"""Recovery after kill -9: how long until a table whose process was killed answers with every row.

Servers are killed and started again. What runs in process is written by a child that kills itself, and opened here.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.agreement import agree, fingerprint
from bench.child import asked, run_child
from bench.contest import each_peer, figure, running
from bench.expected import rows_after
from bench.loading import load
from bench.measurement import SECONDS_MAX, Figure, Score, timing
from bench.peers.peer import Peer, Processes, Scans
from bench.workload import SCHEMA, Workload

JOB = "recovery after kill -9"


def run(work: Workload) -> list[Figure]:
    """Load, kill, and time the way back to the first answer."""
    return each_peer(work, _enter)


def _enter(peer: Peer, work: Workload) -> Iterator[Figure]:
    seconds: list[float] = []
    began = time.perf_counter()
    while len(seconds) < work.repeats and (not seconds or time.perf_counter() - began < SECONDS_MAX):
        # Each time from new files: a second recovery of the same ones has less to do.
        with work.directory() as directory:
            _write_and_kill(peer, work, directory)
            seconds.append(_recover(peer, work, directory))
    took = timing(seconds)
    yield figure(peer, Score(JOB, "ms", 1000 * took.seconds, took.spread, took.repeats, less_is_better=True))


def _write_and_kill(peer: Peer, work: Workload, directory: Path) -> None:
    if not isinstance(peer, Processes):
        done = run_child("bench.job_restart", peer, work, directory)
        agree(f"the end of the child of {peer.name}", done.returncode, -signal.SIGKILL)
        return
    peer.start(directory)
    try:
        with closing(peer.session()) as session:
            load(session, work)
        peer.kill()
    except BaseException:
        peer.stop()
        raise


def _recover(peer: Peer, work: Workload, directory: Path) -> float:
    """Return how many seconds it took to start and to count the rows; what they hold is compared afterwards."""
    start = time.perf_counter()
    with running(peer, directory), closing(peer.session()) as session:
        assert isinstance(session, Scans)
        agree(JOB, session.scan(["id"]).num_rows, work.rows)
        seconds = time.perf_counter() - start
        agree(JOB, fingerprint(session.scan(SCHEMA.names)), rows_after(work, 0))
    return seconds


def _die_after_load() -> None:
    peer, work, directory = asked()
    peer.start(directory)
    load(peer.session(), work)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _die_after_load()
