"""Random upsert with exact changelog: every row is replaced, in random order, and the changes are read to their end.

A peer without a changelog takes part without one, and its figure says so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.agreement import agree, fingerprint
from bench.contest import contest
from bench.expected import rows_after
from bench.loading import load
from bench.measurement import SECONDS_MAX, Figure, Score, timing
from bench.peers.peer import Changes, Drained, Scans, Session
from bench.workload import SCHEMA, Workload


def run(work: Workload) -> list[Figure]:
    """Replace all rows and drain the changelog, several times, each with other values in another order."""
    drained = Drained(work.rows, work.rows * (work.rows - 1) // 2)

    def enter(session: Session) -> Iterator[Score]:
        load(session, work, changelog=True)
        if isinstance(session, Changes):
            agree("the changelog of the first load", session.drain(), drained)
        seconds: list[float] = []
        while len(seconds) < work.repeats and sum(seconds) < SECONDS_MAX:
            batches = work.batches(salt=len(seconds) + 1)
            start = time.perf_counter()
            for batch in batches:
                session.upsert(batch)
            found = session.drain() if isinstance(session, Changes) else drained
            seconds.append(time.perf_counter() - start)
            agree("the changelog of a random upsert", found, drained)
        note = "" if isinstance(session, Changes) else "no changelog"
        yield timing(seconds).score("random upsert, changelog drained", work.rows, note=note)
        if isinstance(session, Scans):
            agree("random upsert", fingerprint(session.scan(SCHEMA.names)), rows_after(work, len(seconds)))

    return contest(work, enter, "writes")
