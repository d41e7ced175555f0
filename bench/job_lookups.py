"""Lookups by key: one at a time and 10,000 at once, beside RocksDB's own reads of the same keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import rocksdict

import penstock
from bench.measurement import Measurement, timed
from bench.workload import SCHEMA, Workload

SINGLES = 500
MANY = 10_000


def run(work: Workload) -> list[Measurement]:
    """Look keys of a full table up; some of the 10,000 are absent."""
    rng = np.random.default_rng(work.seed)
    singles = rng.integers(0, work.rows, SINGLES).tolist()
    many = pa.array(rng.integers(0, work.rows + work.rows // 10, min(MANY, work.rows)))
    with work.directory() as directory, penstock.connect(directory / "data") as conn:
        table = conn.create_table("bench", SCHEMA, primary_key=["id"])
        for batch in work.batches():
            table.upsert(batch)
        bare = _bare_store(directory / "bare", work)
        one = timed(lambda: [table.lookup([key]) for key in singles])
        all_columns = timed(lambda: table.lookup(many))
        one_column = timed(lambda: table.lookup(many, columns=["amount"]))
        bare_one = timed(lambda: [bare([key]) for key in singles])
        bare_many = timed(lambda: bare(many.to_pylist()))
    bound = "rocksdict get of 8-byte values"
    rate = bare_many.rate(len(many))
    return [
        Measurement(
            "lookup, 1 key", "keys/s", one.rate(SINGLES), bound + ", 1 key", bare_one.rate(SINGLES), one.spread
        ),
        Measurement("lookup, 10,000 keys", "keys/s", all_columns.rate(len(many)), bound, rate, all_columns.spread),
        Measurement(
            "lookup, 10,000 keys, one column",
            "keys/s",
            one_column.rate(len(many)),
            bound,
            rate,
            one_column.spread,
        ),
    ]


def _bare_store(path: Path, work: Workload) -> Callable[[list[int]], object]:
    """Return a function that reads keys from a store with the same keys and 8-byte values."""
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    db = rocksdict.Rdict(str(path), options)
    for start in range(0, work.rows, work.batch_rows):
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key in range(start, min(start + work.batch_rows, work.rows)):
            batch.put(key.to_bytes(8), key.to_bytes(8))
        db.write(batch)
    return lambda keys: db.get([key.to_bytes(8) for key in keys])
