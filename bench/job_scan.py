"""Full scans into Arrow: all columns, two columns, a filter that keeps one row in 17."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from bench.agreement import agree, fingerprint
from bench.contest import contest
from bench.loading import load
from bench.measurement import Figure, Score, timed
from bench.peers.peer import Scans, Session
from bench.workload import SCHEMA, Workload

TWO = ("id", "amount")
ITEMS = 3


def run(work: Workload) -> list[Figure]:
    """Scan a table of one version."""
    rows = pa.Table.from_batches(work.batches())
    jobs = (
        ("scan, all columns", SCHEMA.names, None, fingerprint(rows)),
        ("scan, two columns", TWO, None, fingerprint(rows.select(TWO))),
        ("scan, filter 1 in 17", SCHEMA.names, ITEMS, fingerprint(rows.filter(pc.field("items") == ITEMS))),
    )

    def enter(session: Session) -> Iterator[Score]:
        if not isinstance(session, Scans):
            return
        load(session, work)
        for job, columns, items, expected in jobs:
            found: list[pa.Table] = []
            took = timed(lambda c=columns, i=items, f=found: f.append(session.scan(c, i)), work.repeats, warm=1)  # type: ignore[misc]
            yield took.score(job, work.rows)
            agree(job, fingerprint(found[-1]), expected)

    return contest(work, enter, "scans")
