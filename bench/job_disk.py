"""Bytes on disk for each live row, after ten updates of each; every peer keeps its changelog, if it has one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from bench.agreement import agree, fingerprint
from bench.contest import each_peer, figure, running
from bench.expected import rows_after
from bench.loading import load
from bench.measurement import Figure, Score
from bench.peers.peer import Changes, Peer, Scans
from bench.workload import SCHEMA, Workload

UPDATES = 10
JOB = "disk, after 10 updates of each row"


def run(work: Workload) -> list[Figure]:
    """Update a tenth of the rows ten times, so that as many rows are written as in the other jobs."""
    small = replace(work, rows=max(work.rows // UPDATES, 1))
    return each_peer(small, _enter)


def _enter(peer: Peer, work: Workload) -> Iterator[Figure]:
    with work.directory() as directory:
        with running(peer, directory), closing(peer.session()) as session:
            session.create(changelog=True)
            empty = _bytes_under(directory)
            load(session, work, changelog=True)
            for salt in range(1, UPDATES + 1):
                for batch in work.batches(salt):
                    session.upsert(batch)
            assert isinstance(session, Scans)
            agree(JOB, fingerprint(session.scan(SCHEMA.names)), rows_after(work, UPDATES))
            note = "" if isinstance(session, Changes) else "no changelog"
        # Stopped: what is on disk is all there is.
        size = _bytes_under(directory) - empty
    yield figure(peer, Score(JOB, "bytes/row", size / work.rows, note=note, less_is_better=True))


def _bytes_under(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())
