"""Reads by key: one at a time, and 10,000 at once, of which some are absent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.agreement import agree
from bench.contest import contest
from bench.loading import load
from bench.measurement import Figure, Score, timed
from bench.peers.peer import Looks, Session
from bench.workload import Workload

SINGLES = 500
MANY = 10_000


def run(work: Workload) -> list[Figure]:
    """Read random keys of a full table."""
    random = np.random.default_rng(work.seed)
    singles = random.integers(0, work.rows, SINGLES).tolist()
    beyond = work.rows + work.rows // 10
    many = random.choice(beyond, min(MANY, work.rows), replace=False).tolist()
    there = sum(number < work.rows for number in many)

    def enter(session: Session) -> Iterator[Score]:
        if not isinstance(session, Looks):
            return
        load(session, work)
        agree("lookup, one key", sum(session.lookup([number]) for number in singles), SINGLES)
        one = timed(lambda: [session.lookup([number]) for number in singles], work.repeats)
        yield one.score("lookup, one key a call", SINGLES, "keys/s")
        agree("lookup, many keys", session.lookup(many), there)
        all_at_once = timed(lambda: session.lookup(many), work.repeats)
        yield all_at_once.score("lookup, 10,000 keys a call", len(many), "keys/s")

    return contest(work, enter, "lookups")
