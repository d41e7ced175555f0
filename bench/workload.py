"""The rows that every job uses: five columns, seeded, made before the clock starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.peers.peer import Peer

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("city", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("items", pa.int64()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class Workload:
    """How much, how large the batches, which seed, where the files go, how often, and beside whom."""

    rows: int
    batch_rows: int
    seed: int
    root: Path
    repeats: int = 3
    peers: tuple[Peer, ...] = ()
    """Who takes part, as found when the roll was called."""

    growth: int = 4
    """How many times its first size the table of the scaling job grows to."""

    def ids(self, salt: int = 0) -> npt.NDArray[np.int64]:
        """Return every id once, in a random order of its own per salt."""
        return np.random.default_rng(self.seed + salt).permutation(self.rows).astype(np.int64)

    def batches(self, salt: int = 0, batch_rows: int | None = None) -> list[pa.RecordBatch]:
        """Return every id once, in batches."""
        ids, size = self.ids(salt), batch_rows or self.batch_rows
        return [rows(ids[start : start + size], salt) for start in range(0, len(ids), size)]

    @contextmanager
    def directory(self) -> Iterator[Path]:
        """Give a directory that is gone afterwards."""
        with TemporaryDirectory(dir=self.root, prefix="bench-") as path:
            yield Path(path)


def rows(ids: npt.NDArray[np.int64], salt: int = 0) -> pa.RecordBatch:
    """Return rows of these ids; another salt gives other values."""
    mixed = (ids * 2654435761 + salt) % 1_000_003
    cities = pa.array([f"city-{number:03d}" for number in range(500)])
    return pa.RecordBatch.from_arrays(
        [
            pa.array(ids),
            cities.take(pa.array(mixed % 500)),
            pa.array(mixed / 100.0),
            pa.array(mixed % 17),
            pa.array(1_700_000_000_000_000 + mixed, pa.timestamp("us", tz="UTC")),
        ],
        schema=SCHEMA,
    )
