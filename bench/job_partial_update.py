"""Partial update: one column of every row, in random order; the others keep their values."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from bench.agreement import agree, fingerprint
from bench.contest import contest
from bench.loading import each, load
from bench.measurement import Figure, Score, timed
from bench.peers.peer import Parts, Scans, Session
from bench.workload import SCHEMA, Workload

COLUMNS = ["id", "amount"]


def run(work: Workload) -> list[Figure]:
    """Set the amount of every row, several times to the same."""
    batches = [batch.select(COLUMNS) for batch in work.batches(salt=1)]
    new = pa.Table.from_batches(batches).sort_by("id").column("amount")
    old = pa.Table.from_batches(work.batches()).sort_by("id")
    expected = fingerprint(old.set_column(SCHEMA.names.index("amount"), SCHEMA.field("amount"), new))

    def enter(session: Session) -> Iterator[Score]:
        if not isinstance(session, Parts) or not isinstance(session, Scans):
            return
        load(session, work)
        took = timed(each(session.set_amounts, batches), work.repeats)
        yield took.score("partial update, one column", work.rows)
        agree("partial update", fingerprint(session.scan(SCHEMA.names)), expected)

    return contest(work, enter)
