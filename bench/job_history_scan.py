"""Scan under 20 versions of history: every row was replaced 19 times, and the changelog kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bench.agreement import agree, fingerprint
from bench.contest import contest
from bench.expected import rows_after
from bench.measurement import Figure, Score, timed
from bench.peers.peer import Scans, Session
from bench.workload import SCHEMA, Workload

VERSIONS = 20


def run(work: Workload) -> list[Figure]:
    """Write 20 versions of a twentieth of the rows, so that as many rows are written as in the other jobs."""
    small = replace(work, rows=max(work.rows // VERSIONS, 1))
    expected = rows_after(small, VERSIONS - 1)

    def enter(session: Session) -> Iterator[Score]:
        if not isinstance(session, Scans):
            return
        session.create(changelog=True)
        for salt in range(VERSIONS):
            for batch in small.batches(salt):
                session.upsert(batch)
        took = timed(lambda: session.scan(SCHEMA.names), work.repeats, warm=1)
        yield took.score(f"scan, {VERSIONS} versions of history", small.rows, "live rows/s")
        agree("history", fingerprint(session.scan(SCHEMA.names)), expected)

    return contest(work, enter, "scans")
