"""One-row writes from 16 threads: what group commit gains over a lock held over each sync."""

from __future__ import annotations

import threading

import penstock
from bench.bounds import one_sync_a_row
from bench.measurement import Measurement, timed
from bench.workload import SCHEMA, Workload, rows

THREADS = 16
PER_THREAD = 500


def run(work: Workload) -> list[Measurement]:
    """Write single rows from 16 threads and from one."""
    total = THREADS * PER_THREAD
    with work.directory() as directory, penstock.connect(directory / "data") as conn:
        table = conn.create_table("bench", SCHEMA, primary_key=["id"])
        ids = work.ids()
        table.upsert(rows(ids[:1000]))
        singles = [rows(ids[number : number + 1]) for number in range(total)]

        def write(first: int, last: int) -> None:
            for batch in singles[first:last]:
                table.upsert(batch)

        def all_threads() -> None:
            workers = [
                threading.Thread(target=write, args=(start, start + PER_THREAD))
                for start in range(0, total, PER_THREAD)
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()

        many = timed(all_threads)
        one = timed(lambda: write(0, PER_THREAD))
        bare = timed(lambda: one_sync_a_row(directory / "singles", THREADS, PER_THREAD))
    return [
        Measurement(
            "one-row writes, 16 threads",
            "rows/s",
            many.rate(total),
            "plain file, one sync a row",
            bare.rate(total),
            many.spread,
        ),
        Measurement(
            "one-row writes, 16 threads",
            "rows/s",
            many.rate(total),
            "the same, one thread",
            one.rate(PER_THREAD),
            many.spread,
        ),
    ]
