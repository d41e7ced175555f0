"""Aggregating upsert: rows are folded into a sum, a maximum and a count by key; keys distinct, and skewed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.agreement import Fingerprint, agree, totals_fingerprint
from bench.contest import contest
from bench.loading import each
from bench.measurement import Figure, Score, timed
from bench.peers.peer import Folds, Session
from bench.workload import Workload

SKEW = 1.2
KEYS_MAX = 100_000


def run(work: Workload) -> list[Figure]:
    """Fold once to make every key, then measure folding into keys that are there."""
    random = np.random.default_rng(work.seed)
    distinct = work.ids()
    skewed = random.zipf(SKEW, work.rows) % KEYS_MAX
    values = random.integers(0, 1_000, work.rows)
    kinds = [
        (f"aggregating upsert, {name} keys", _batches(keys, values, work.batch_rows))
        for name, keys in (("distinct", distinct), ("skewed", skewed))
    ]

    def enter(session: Session) -> Iterator[Score]:
        if isinstance(session, Folds):
            for job, batches in kinds:
                yield _fold(session, job, batches, work)

    return contest(work, enter)


def _fold(session: Folds, job: str, batches: list[pa.RecordBatch], work: Workload) -> Score:
    times = itertools.count()
    session.create_totals()
    took = timed(each(session.fold, batches), work.repeats, warm=1, before=lambda: next(times))
    agree(job, totals_fingerprint(session.totals()), _expected(batches, next(times)))
    return took.score(job, work.rows)


def _batches(keys: npt.NDArray[np.int64], values: npt.NDArray[np.int64], size: int) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pydict({"key": keys[at : at + size].astype(np.int64), "value": values[at : at + size]})
        for at in range(0, len(keys), size)
    ]


def _expected(batches: list[pa.RecordBatch], times: int) -> Fingerprint:
    folded = (
        pa.Table.from_batches(batches)
        .group_by("key")
        .aggregate([("value", "sum"), ("value", "max"), ("value", "count")])
    )
    many = pa.scalar(times, pa.int64())
    return totals_fingerprint(
        pa.table(
            {
                "key": folded.column("key"),
                "total": pa.compute.multiply(folded.column("value_sum"), many),
                "top": folded.column("value_max"),
                "times": pa.compute.multiply(folded.column("value_count"), many),
            }
        )
    )
