"""Upserts into table formats on files: commits of 1,000 to 1,000,000 rows into a full table, then a scan; beside us."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.agreement import agree, fingerprint
from bench.contest import figure, running
from bench.measurement import Figure, Score, timed, timing
from bench.peers.peer import Changes, Drained, Peer, Scans, Session, Transport
from bench.workload import SCHEMA, Workload, rows

COMMIT_ROWS = (1_000, 10_000, 100_000, 1_000_000)
COMMITS = 3
COMMIT_SECONDS_MAX = 20.0
"""A peer is not asked for larger commits when one took this long."""


def run(work: Workload) -> list[Figure]:
    """Enter the table formats, and Penstock in process, which must do the same commits."""
    figures: list[Figure] = []
    for peer in work.peers:
        if peer.transport is Transport.FILES or peer.name == "Penstock":
            with work.directory() as directory, running(peer, directory), closing(peer.session()) as session:
                figures += [figure(peer, score, Transport.FILES) for score in _enter(peer, session, work)]
    return figures


def _enter(peer: Peer, session: Session, work: Workload) -> Iterator[Score]:
    assert isinstance(session, Scans)
    random = np.random.default_rng(work.seed)
    session.create(changelog=True)
    salts = np.zeros(work.rows, np.int64)
    for batch in replace(work, batch_rows=work.rows).batches():
        session.upsert(batch)
    if isinstance(session, Changes):
        session.drain()
    for size in (size for size in COMMIT_ROWS if size <= work.rows):
        seconds: list[float] = []
        while len(seconds) < min(COMMITS, work.repeats) and sum(seconds) < COMMIT_SECONDS_MAX:
            ids = random.choice(work.rows, size, replace=False).astype(np.int64)
            salts[ids] = salt = int(salts.max()) + 1
            seconds.append(_commit(session, rows(ids, salt)))
        note = "" if isinstance(session, Changes) else "no changelog"
        yield timing(seconds).score(f"upsert, {size:,} rows a commit", size, note=note)
        if max(seconds) > COMMIT_SECONDS_MAX:
            break
    took = timed(lambda: session.scan(SCHEMA.names), work.repeats, warm=1)
    yield took.score("scan after these commits", work.rows)
    agree(f"{peer.name} after commits", fingerprint(session.scan(SCHEMA.names)), fingerprint(_expected(salts)))


def _commit(session: Session, batch: pa.RecordBatch) -> float:
    """Upsert and read the changes; return how long that took."""
    start = time.perf_counter()
    session.upsert(batch)
    found = session.drain() if isinstance(session, Changes) else None
    seconds = time.perf_counter() - start
    if found is not None:
        agree("the changelog of a commit", found, Drained(batch.num_rows, int(batch.column("id").to_numpy().sum())))
    return seconds


def _expected(salts: npt.NDArray[np.int64]) -> pa.Table:
    return pa.Table.from_batches([rows(np.flatnonzero(salts == salt), int(salt)) for salt in np.unique(salts)])
