"""What a table must hold in the end, from the generator alone."""

from __future__ import annotations

import pyarrow as pa

from bench.agreement import Fingerprint, fingerprint
from bench.workload import Workload


def rows_after(work: Workload, salt: int) -> Fingerprint:
    """Return the fingerprint of all rows as this salt wrote them."""
    return fingerprint(pa.Table.from_batches(work.batches(salt)))
