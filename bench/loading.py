"""Write batches through a session, one call each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from bench.peers.peer import Session
from bench.workload import Workload


def each(write: Callable[[pa.RecordBatch], object], batches: Iterable[pa.RecordBatch]) -> Callable[[], None]:
    """Return a work that writes these batches, one call each."""

    def work() -> None:
        for batch in batches:
            write(batch)

    return work


def load(session: Session, work: Workload, *, changelog: bool = False) -> None:
    """Make the table and fill it with the first version of every row."""
    session.create(changelog=changelog)
    each(session.upsert, work.batches())()
