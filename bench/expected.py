"""What a table must hold in the end, from the generator alone."""

from __future__ import annotations

import pyarrow as pa

from bench.agreement import Fingerprint, fingerprint
from bench.peers.peer import Session
from bench.workload import Workload


def rows_after(work: Workload, salt: int) -> Fingerprint:
    """Return the fingerprint of all rows as this salt wrote them."""
    return fingerprint(pa.Table.from_batches(work.batches(salt)))


def load(session: Session, work: Workload, *, changelog: bool = False) -> None:
    """Make the table and fill it with the first version of every row."""
    session.create(changelog=changelog)
    for batch in work.batches():
        session.upsert(batch)
