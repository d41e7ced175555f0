"""Arrow in this process: the bound of a scan. The rows are in memory, the scan is one filter over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.peers.library import Library
from bench.workload import SCHEMA


class ArrowMemory(Library):
    """The library."""

    name = "Arrow in memory"
    bounds = frozenset(("scans",))

    def settings(self) -> str:
        """Return what is done."""
        return (
            f"{pa.__version__}; the last version of each row in memory, filtered by one comparison; nothing is stored"
        )

    def session(self) -> ArrowMemorySession:
        """Begin with nothing."""
        return ArrowMemorySession()


class ArrowMemorySession:
    """The rows."""

    def __init__(self) -> None:
        self.create()

    def create(self, *, changelog: bool = False) -> None:
        """Forget the rows."""
        self._batches: list[pa.RecordBatch] = []
        self._live: pa.Table | None = None

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Keep the batch; what it replaces is found before the first scan, outside of any clock."""
        self._batches.append(batch)
        self._live = None

    def scan(self, columns: Sequence[str], items: int | None = None) -> pa.Table:
        """Filter."""
        rows = self.live()
        if items is not None:
            return rows.filter(pc.field("items") == items).select(list(columns))
        return rows.select(list(columns)).filter(
            pc.greater_equal(rows.column("at"), pa.scalar(0, SCHEMA.field("at").type))
        )

    def live(self) -> pa.Table:
        """Return the last version of each row."""
        if self._live is None:
            rows = pa.Table.from_batches(self._batches, SCHEMA).combine_chunks()
            backwards = rows.column("id").to_numpy()[::-1]
            _, last = np.unique(backwards, return_index=True)
            self._live = rows.take(pa.array(len(backwards) - 1 - last)).combine_chunks()
        return self._live

    def close(self) -> None:
        """Forget the rows."""
        self.create()


PEER = ArrowMemory()
