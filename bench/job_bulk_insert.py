"""Bulk insert: an empty table gets every row, batch by batch, each durable when its call returns."""

from __future__ import annotations

from collections.abc import Iterator

from bench.agreement import agree, fingerprint
from bench.contest import contest
from bench.expected import rows_after
from bench.loading import each
from bench.measurement import Figure, Score, timed
from bench.peers.peer import Scans, Session
from bench.workload import SCHEMA, Workload


def run(work: Workload) -> list[Figure]:
    """Insert into a new table, several times."""
    batches, expected = work.batches(), rows_after(work, 0)

    def enter(session: Session) -> Iterator[Score]:
        session.create()
        session.upsert(batches[0])  # Warms the connection; the table is made anew.
        took = timed(each(session.upsert, batches), work.repeats, before=session.create)
        yield took.score("bulk insert", work.rows)
        if isinstance(session, Scans):
            agree("bulk insert", fingerprint(session.scan(SCHEMA.names)), expected)

    return contest(work, enter, "writes")
