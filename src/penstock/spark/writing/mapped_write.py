"""A job's tasks as Spark maps batches: rows in, one row out of each that says what it wrote.

These are Spark's own Python workers. They live on from job to job, with what they have imported and with
their connection; what plans and commits a `df.write.format(...)` is a fresh process each time.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.spark.session.column_name import mappable, quoted
from penstock.spark.session.spark_types import spark_schema
from penstock.spark.writing.job_epoch import JobEpoch, Written
from penstock.spark.writing.task_writer import TaskWriter
from penstock.spark.writing.write_plan import WritePlan

_SCHEMA: Final = pa.schema(
    [
        ("attempt", pa.binary()),
        ("rows", pa.int64()),
        ("updates_before", pa.int64()),
        ("updates_after", pa.int64()),
        ("deletes", pa.int64()),
        ("deletes_without", pa.int64()),
        ("refusal", pa.binary()),
    ]
)
_COLUMNS: Final = spark_schema(_SCHEMA)


def sent_rows(df: DataFrame, plan: WritePlan) -> DataFrame:
    """Return the rows with the columns that travel, and no others."""
    sources = [source for source, _ in plan.sent]
    # A select is a plan more for Spark to analyse: in a small micro-batch that counts.
    return df if df.columns == sources else df.select(*map(quoted, sources))


def write_mapped(rows: DataFrame, plan: WritePlan, epoch: JobEpoch, *, staged: bool) -> list[Written]:
    """Write the rows that travel in an epoch, each partition by a task of its own; return what each task wrote.

    Raises:
        PySparkException: a task failed more often than Spark tries again.
    """
    found = mappable(rows)
    if found is not rows:
        plan = replace(plan, sent=tuple((name, kept) for name, (_, kept) in zip(found.columns, plan.sent, strict=True)))
    tasks = found.mapInArrow(_Mapped(TaskWriter(plan, epoch, staged=staged)), _COLUMNS).collect()
    return [
        Written(
            bytes(task.attempt),
            task.rows,
            task.updates_before,
            task.updates_after,
            task.deletes,
            task.deletes_without,
            None if task.refusal is None else pickle.loads(task.refusal),
        )
        for task in tasks
    ]


@dataclass(frozen=True)
class _Mapped:
    """A task's write. Picklable."""

    task: TaskWriter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done = self.task.write(batches)
        refusal = None if done.refusal is None else pickle.dumps(done.refusal)
        counts = (done.updates_before, done.updates_after, done.deletes, done.deletes_without)
        written = (done.attempt, done.rows, *counts, refusal)
        arrays = [pa.array([value], field.type) for value, field in zip(written, _SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
