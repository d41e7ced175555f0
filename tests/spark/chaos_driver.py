"""A driver to be killed: five streams into five tables, whose tasks die half-way, and that may kill itself.

Run as a program with one argument: a JSON object, as `Chaos` in test_spark_exactly_once.py writes it.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
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
from penstock.spark.session.java import use_java
from penstock.spark.writing import job_epoch, mapped_write
from penstock.spark.writing.job_epoch import JobEpoch, Written
from penstock.spark.writing.task_writer import TaskWriter

CONFIG: dict[str, Any] = json.loads(sys.argv[1])
ROWS = "k bigint, v bigint, seq bigint"
ALL = {"availableNow": True}
CHANGES = "k bigint, v bigint, _change_type string, _offset bigint"
DAWDLE_SECONDS_MAX = 20.0
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.efficiency.enabled": "false",
}


@dataclass(frozen=True)
class FlakyTaskWriter(TaskWriter):
    """Sends small calls, and between two of them dies, dawdles or stands still, by chance or as told.

    An attempt after the second lives, so that no job fails for good.
    """

    call_rows: int = CONFIG["call_rows"]

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write, or die."""
        return super().write(self._flaky(batches))

    def _flaky(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        number, place = context.attemptNumber(), f"{self.epoch.token.hex()}-{context.partitionId()}"
        chance = random.Random(f"{CONFIG['seed']} {place} {number}")
        doomed = number < 2 and chance.random() < CONFIG["death"]
        pieces = (piece for whole in batches for piece in slices(whole))
        sent: list[pa.RecordBatch] = []
        for piece in pieces:
            if len(sent) == 2:
                if number == 0 and self._is_held():
                    stand_still()
                elif CONFIG["speculation"] and self._may_dawdle(chance, context.partitionId()):
                    meet_twin(place, number)
                if doomed:
                    self._die(chance, number, itertools.chain(sent, [piece], pieces))
            sent.append(piece)
            yield piece

    def _may_dawdle(self, chance: random.Random, partition: int) -> bool:
        # One task of one query: Spark copies a task only when others have ended, and needs a free core for it.
        return self.plan.info.name == "sums" and partition == 0 and chance.random() < 0.6

    def _is_held(self) -> bool:
        hold = CONFIG["hold"]
        return hold is not None and (self.plan.info.name, self.epoch.epoch) == (hold["table"], hold["batch"])

    def _die(self, chance: random.Random, number: int, pieces: Iterable[pa.RecordBatch]) -> None:
        mark("deaths")
        if number == 0 and chance.random() < CONFIG["zombies"]:
            self._leave_zombie(chance, list(pieces))
        if chance.random() < 0.5:
            os._exit(1)
        raise RuntimeError("the task dies half-way")

    def _leave_zombie(self, chance: random.Random, batches: list[pa.RecordBatch]) -> None:
        home = Path(CONFIG["home"]) / "zombies" / uuid.uuid4().hex
        home.mkdir()
        writer = TaskWriter(self.plan, self.epoch, self.staged, self.call_rows)
        (home / "writer").write_bytes(pickle.dumps(writer))
        with pa.ipc.new_stream(home / "rows", batches[0].schema) as rows:
            for batch in batches:
                rows.write_batch(batch)
        (home / "seconds").write_text(str(3 * chance.random()))
        subprocess.Popen(
            [sys.executable, CONFIG["zombie"], str(home)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, CONFIG["call_rows"]):
        yield batch.slice(start, CONFIG["call_rows"])


def mark(kind: str, name: str | None = None) -> None:
    (Path(CONFIG["home"]) / kind / (name or uuid.uuid4().hex)).touch()


def is_marked(kind: str, name: str) -> bool:
    return (Path(CONFIG["home"]) / kind / name).exists()


def stand_still() -> None:
    """Wait until somebody lets the job go on."""
    mark("held")
    while not is_marked("held", "go"):
        time.sleep(0.05)


def meet_twin(place: str, number: int) -> None:
    """Be so slow as a first attempt that Spark starts a twin; as a twin, be still at it when the first has ended."""
    if number == 0:
        mark("slow", place)
        end = time.monotonic() + DAWDLE_SECONDS_MAX
        while not is_marked("twins", place) and time.monotonic() < end:
            time.sleep(0.02)
    elif is_marked("slow", place):
        mark("twins", place)
        time.sleep(0.5)


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

    def watched_commit(link: Any, plan: Any, epoch: JobEpoch, written: Iterable[Written], **options: Any) -> None:
        here = epoch.epoch == batch and plan.info.name == table
        if here and point == "before commit":
            kill()
        if here and point == "in commit":
            kill(0.002)
        commit(link, plan, epoch, written, **options)
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
    totals = rows.groupBy("k").agg(sf.sum("v").alias("v"), sf.count("*").alias("n"))
    jobs: dict[str, tuple[DataFrame, dict[str, Any]]] = {
        "sums": (rows.select("k", "v", sf.lit(1).cast("bigint").alias("n")), {}),
        "newest": (rows.repartition(3), {"order_by": "seq"}),
        "totals": (totals, {"output_mode": "update"}),
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


def session() -> SparkSession:
    builder = SparkSession.builder.master(CONFIG["master"])
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        # Late tasks fence live ones, which are then tried again: more often than Spark's four times.
        "spark.task.maxFailures": "8",
        "spark.sql.warehouse.dir": f"{CONFIG['home']}/warehouse",
        "spark.local.dir": f"{CONFIG['home']}/local",
    }
    for name, value in (settings | (SPECULATION if CONFIG["speculation"] else {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    use_java()
    mapped_write.TaskWriter = FlakyTaskWriter  # type: ignore[attr-defined]
    if CONFIG["kill"] is not None:
        arm(**CONFIG["kill"])
    start(session())
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    os._exit(0)
