"""A driver to be killed: four streams into four tables, whose tasks die half-way, and that may kill itself.

Run as a program with one argument: a JSON object, as `Chaos` in test_spark_exactly_once.py writes it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import penstock.spark as pks
from penstock.spark import job_epoch, stream_sink
from penstock.spark.java import use_java
from penstock.spark.job_epoch import JobEpoch, Written
from penstock.spark.task_writer import TaskWriter

CONFIG: dict[str, Any] = json.loads(sys.argv[1])
ROWS = "k bigint, v bigint, seq bigint"
CALL_ROWS = 50
ALL = {"availableNow": True}
CHANGES = "k bigint, v bigint, _change_type string, _offset bigint"


@dataclass(frozen=True)
class FlakyTaskWriter(TaskWriter):
    """Sends small calls, and dies between two of them, by chance; an attempt after the second lives."""

    call_rows: int = CALL_ROWS

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write, or die."""
        return super().write(self._dying(batches))

    def _dying(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        chance = random.Random(f"{CONFIG['seed']} {self.epoch.token!r} {context.taskAttemptId()}")
        doomed = context.attemptNumber() < 2 and chance.random() < CONFIG["death"]
        for number, batch in enumerate(piece for whole in batches for piece in slices(whole)):
            if doomed and number == 2:
                (Path(CONFIG["home"]) / "deaths" / uuid.uuid4().hex).touch()
                if chance.random() < 0.5:
                    os._exit(1)
                raise RuntimeError("the task dies half-way")
            yield batch


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, CALL_ROWS):
        yield batch.slice(start, CALL_ROWS)


def kill(after_seconds: float = 0.0) -> None:
    if after_seconds:
        threading.Timer(after_seconds, kill).start()
    else:
        os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str, table: str, batch: int, delay: float) -> None:
    """Kill this process at one point of one micro-batch."""
    begin, commit = job_epoch.begin, job_epoch.commit
    names: dict[bytes, str] = {}

    def watched_begin(link: Any, grant: Any, epoch: int) -> JobEpoch:
        begun = begin(link, grant, epoch)
        if point == "write" and epoch == batch and names.get(grant.token) == table:
            kill(delay)
        return begun

    def watched_commit(link: Any, plan: Any, epoch: JobEpoch, written: Iterable[Written]) -> None:
        here = epoch.epoch == batch and plan.info.name == table
        if here and point == "before commit":
            kill()
        if here and point == "in commit":
            kill(0.002)
        commit(link, plan, epoch, written)
        if here and point in {"in commit", "after commit"}:
            kill()

    acquire = job_epoch.acquire

    def watched_acquire(link: Any, plan: Any, *names_: Any, **options: Any) -> Any:
        grant = acquire(link, plan, *names_, **options)
        names[grant.token] = plan.info.name
        return grant

    job_epoch.acquire, job_epoch.begin, job_epoch.commit = watched_acquire, watched_begin, watched_commit


def start(spark: SparkSession) -> None:
    home, url = Path(CONFIG["home"]), CONFIG["url"]

    def source(schema: str, name: str) -> DataFrame:
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(home / name))

    rows = source(ROWS, "rows")
    jobs: dict[str, tuple[DataFrame, dict[str, Any]]] = {
        "sums": (rows.select("k", "v", sf.lit(1).cast("bigint").alias("n")), {}),
        "newest": (rows.repartition(3), {"order_by": "seq"}),
        "log": (rows, {}),
        "copy": (source(CHANGES, "changes").repartition(3), {"operation": "apply"}),
    }
    queries = [
        pks.write_stream(df, url, f"chaos.{name}", checkpoint=str(home / "checkpoints" / name), trigger=ALL, **options)
        for name, (df, options) in jobs.items()
    ]
    print("started", flush=True)
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    use_java()
    stream_sink.TaskWriter = FlakyTaskWriter  # type: ignore[attr-defined]
    if CONFIG["kill"] is not None:
        arm(**CONFIG["kill"])
    start(
        SparkSession.builder.master(CONFIG["master"])
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.warehouse.dir", f"{CONFIG['home']}/warehouse")
        .config("spark.local.dir", f"{CONFIG['home']}/local")
        .getOrCreate()
    )
    os._exit(0)
