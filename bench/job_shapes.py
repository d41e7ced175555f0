"""Tables of other shapes: 100 buckets, 50 and 200 columns, batches of 1 to 10,000 rows; beside a plain file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import penstock
from bench.bounds import plain_file
from bench.measurement import Measurement, Timing, timed
from bench.workload import SCHEMA, Workload

BUCKETS = 100
WIDTHS = (50, 200)
BATCH_ROWS = (1, 10, 100, 1_000, 10_000)
BATCHES_MAX = 300
CELLS = 5
"""Columns of the usual table: wider ones get as many fewer rows, so that each shape moves as much data."""


def run(work: Workload) -> list[Measurement]:
    """Upsert into each shape, and scan it."""
    results = _shape("100 buckets", work, work.batches(), SCHEMA, buckets=BUCKETS)
    for width in WIDTHS:
        schema, batches = _widened(work, width)
        results += _shape(f"{width} columns", work, batches, schema)
    for size in BATCH_ROWS:
        batches = work.batches(batch_rows=size)[: max(BATCHES_MAX if size < 10_000 else 20, 1)]
        results += _shape(f"batches of {size:,}", work, batches, SCHEMA, scanned=False)
    return results


def _widened(work: Workload, width: int) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """Return the usual rows with their columns repeated up to `width`; fewer rows in proportion."""
    fewer = Workload(max(work.rows * CELLS // width, 1), work.batch_rows, work.seed, work.root)
    fields = [field.with_name(f"{field.name}{number}") for number in range(width) for field in list(SCHEMA)[1:]]
    schema = pa.schema([SCHEMA.field("id"), *fields[: width - 1]])
    batches = []
    for batch in fewer.batches():
        values = batch.columns[1:] * (width // (CELLS - 1) + 1)
        batches.append(pa.RecordBatch.from_arrays([batch.column("id"), *values[: width - 1]], schema=schema))
    return schema, batches


def _shape(
    name: str,
    work: Workload,
    batches: list[pa.RecordBatch],
    schema: pa.Schema,
    *,
    buckets: int = 1,
    scanned: bool = True,
) -> list[Measurement]:
    rows = sum(batch.num_rows for batch in batches)
    with work.directory() as directory, penstock.connect(directory / "data") as conn:
        table = conn.create_table("bench", schema, primary_key=["id"], buckets=buckets)
        table.upsert(batches[0])

        def write() -> None:
            for batch in batches:
                table.upsert(batch)

        written, bare = timed(write), timed(lambda: _bare(directory, batches))
        found = [
            Measurement(
                f"upserts, {name}",
                "rows/s",
                written.rate(rows),
                "plain file, same bytes and syncs",
                bare.rate(rows),
                written.spread,
            )
        ]
        if scanned:
            found.append(_scanned(name, table, rows))
    return found


def _scanned(name: str, table: penstock.Table, rows: int) -> Measurement:
    scan: Timing = timed(lambda: table.scan().to_arrow())
    memory = table.scan().to_arrow()
    copied = timed(lambda: memory.take(pa.array(range(memory.num_rows))))
    return Measurement(
        f"scan, {name}", "rows/s", scan.rate(rows), "in-memory Arrow take", copied.rate(rows), scan.spread
    )


def _bare(directory: Path, batches: list[pa.RecordBatch]) -> None:
    (directory / "plain").unlink(missing_ok=True)
    plain_file(directory, batches)
