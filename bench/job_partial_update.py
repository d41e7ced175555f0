"""Partial update: one column of every row, in random order; the others keep their values."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from bench.agreement import Fingerprint, agree, fingerprint
from bench.contest import contest
from bench.loading import each, load
from bench.measurement import SECONDS_MAX, Figure, Score, timing
from bench.peers.peer import Parts, Scans, Session
from bench.workload import SCHEMA, Workload

COLUMNS = ["id", "amount"]


def run(work: Workload) -> list[Figure]:
    """Set the amount of every row, several times, each to another: a write that changes nothing may be cheaper."""

    def enter(session: Session) -> Iterator[Score]:
        if not isinstance(session, Parts) or not isinstance(session, Scans):
            return
        load(session, work)
        seconds: list[float] = []
        while len(seconds) < work.repeats and sum(seconds) < SECONDS_MAX:
            batches = _amounts(work, len(seconds) + 1)
            start = time.perf_counter()
            each(session.set_amounts, batches)()
            seconds.append(time.perf_counter() - start)
        yield timing(seconds).score("partial update, one column", work.rows)
        agree("partial update", fingerprint(session.scan(SCHEMA.names)), _expected(work, len(seconds)))

    return contest(work, enter)


def _amounts(work: Workload, salt: int) -> list[pa.RecordBatch]:
    return [batch.select(COLUMNS) for batch in work.batches(salt)]


def _expected(work: Workload, salt: int) -> Fingerprint:
    """Return the fingerprint of the first version of every row, with this salt's amounts."""
    new = pa.Table.from_batches(_amounts(work, salt)).sort_by("id").column("amount")
    old = pa.Table.from_batches(work.batches()).sort_by("id")
    return fingerprint(old.set_column(SCHEMA.names.index("amount"), SCHEMA.field("amount"), new))
