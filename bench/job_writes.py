"""Bulk insert and random update, beside bare rocksdict and beside a plain file with the same syncs."""

from __future__ import annotations

import penstock
from bench.bounds import plain_file, rocksdict_get_put
from bench.measurement import Measurement, timed
from bench.workload import SCHEMA, Workload


def run(work: Workload) -> list[Measurement]:
    """Insert every id, then update every id in another order; fsync on, exact changelog."""
    with work.directory() as directory, penstock.connect(directory / "data") as conn:
        table = conn.create_table("bench", SCHEMA, primary_key=["id"])
        inserts, updates = work.batches(salt=0), work.batches(salt=1)
        insert = timed(lambda: [table.upsert(batch) for batch in inserts], repeats=1)
        update = timed(lambda: [table.upsert(batch) for batch in updates], repeats=1)
        assert table.stats().live_rows == work.rows
    with work.directory() as directory:
        bare_insert = timed(lambda: rocksdict_get_put(directory, work, [0]), repeats=1)
    with work.directory() as directory:
        bare_both = timed(lambda: rocksdict_get_put(directory, work, [0, 1]), repeats=1)
    with work.directory() as directory:
        plain = timed(lambda: plain_file(directory, inserts), repeats=1)
    bare_update = max(bare_both.seconds - bare_insert.seconds, 1e-9)
    return [
        Measurement("bulk insert", "rows/s", insert.rate(work.rows), "bare rocksdict", bare_insert.rate(work.rows)),
        Measurement("bulk insert", "rows/s", insert.rate(work.rows), "plain file, same syncs", plain.rate(work.rows)),
        Measurement("random update", "rows/s", update.rate(work.rows), "bare rocksdict", work.rows / bare_update),
    ]
