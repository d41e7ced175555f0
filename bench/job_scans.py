"""Full consistent scans into Arrow: all columns, two columns, a filter, and under 20 versions of history."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

import penstock
from bench.bounds import arrow_filter
from bench.measurement import Measurement, timed
from bench.workload import SCHEMA, Workload

VERSIONS = 20


def run(work: Workload) -> list[Measurement]:
    """Scan a table of one version, then one with history, each beside an in-memory Arrow filter."""
    results = []
    with work.directory() as directory, penstock.connect(directory / "data") as conn:
        table = conn.create_table("bench", SCHEMA, primary_key=["id"])
        for batch in work.batches():
            table.upsert(batch)
        memory = table.scan().to_arrow().combine_chunks()
        ends = pa.chunked_array([pa.array(np.full(work.rows, 2))])
        for name, columns in (("scan, all columns", None), ("scan, two columns", ["id", "amount"])):
            scan = timed(partial(_scan, table, columns))
            bound = timed(partial(arrow_filter, memory.select(columns or SCHEMA.names), ends))
            results.append(
                Measurement(
                    name, "rows/s", scan.rate(work.rows), "in-memory Arrow filter", bound.rate(work.rows), scan.spread
                )
            )
        few = timed(lambda: table.scan(filter="items = 3").to_arrow())
        bound = timed(lambda: memory.filter(pa.compute.field("items") == 3))
        results.append(
            Measurement(
                "scan, filter 1 in 17",
                "rows/s",
                few.rate(work.rows),
                "in-memory Arrow filter",
                bound.rate(work.rows),
                few.spread,
            )
        )
    results.append(_with_history(work))
    return results


def _scan(table: penstock.Table, columns: list[str] | None) -> pa.Table:
    return table.scan(columns=columns).to_arrow()


def _with_history(work: Workload) -> Measurement:
    keys = max(work.rows // VERSIONS, 1)
    small = Workload(keys, work.batch_rows, work.seed, work.root)
    with work.directory() as directory, penstock.connect(directory / "data") as conn:
        table = conn.create_table("bench", SCHEMA, primary_key=["id"])
        for salt in range(VERSIONS):
            for batch in small.batches(salt):
                table.upsert(batch)
        memory = table.scan().to_arrow().combine_chunks()
        ends = pa.chunked_array([pa.array(np.full(keys, 2))])
        scan = timed(lambda: table.scan().to_arrow(), repeats=5)
        bound = timed(lambda: arrow_filter(memory, ends), repeats=5)
    return Measurement(
        f"scan, {VERSIONS} versions of history",
        "live rows/s",
        scan.rate(keys),
        "in-memory Arrow filter",
        bound.rate(keys),
        scan.spread,
    )
