"""CDC bootstrap: a snapshot of all rows, then exactly the changes that were made after it, a tenth as many."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.agreement import agree, fingerprint
from bench.contest import contest
from bench.expected import rows_after
from bench.loading import load
from bench.measurement import Figure, Score, timing
from bench.peers.peer import Bootstraps, Drained, Session
from bench.workload import Workload


def run(work: Workload) -> list[Figure]:
    """Fix a snapshot, change a tenth of the rows outside of the clock, then read the snapshot and its tail."""
    expected = rows_after(work, 0)
    batches = work.batches()
    tail = batches[: max(len(batches) // 10, 1)]
    changed = Drained(sum(b.num_rows for b in tail), sum(int(b.column("id").to_numpy().sum()) for b in tail))

    def enter(session: Session) -> Iterator[Score]:
        if not isinstance(session, Bootstraps):
            return
        load(session, work, changelog=True)
        seconds = []
        for _ in range(work.repeats):
            with session.bootstrap() as bootstrap:
                start = time.perf_counter()
                snapshot = bootstrap.snapshot()
                took = time.perf_counter() - start
                # The same rows again: the snapshot of the next repeat is the same.
                for batch in tail:
                    session.upsert(batch)
                start = time.perf_counter()
                found = bootstrap.tail(changed.rows)
                seconds.append(took + time.perf_counter() - start)
            agree("the snapshot of a bootstrap", fingerprint(snapshot), expected)
            agree("the tail of a bootstrap", found, changed)
        yield timing(seconds).score("CDC bootstrap: snapshot and tail", work.rows + changed.rows)

    return contest(work, enter)
