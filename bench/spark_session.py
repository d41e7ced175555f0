"""One Spark session for the Spark jobs, local on two cores, and a server in a process of its own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import penstock
from bench.measurement import Timing, timing
from penstock.spark.session.java import use_java


@contextmanager
def spark_session(directory: Path) -> Iterator[SparkSession]:
    """Start Spark; stop it in the end."""
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    source = str(Path(penstock.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    session = (
        SparkSession.builder.master("local[2]")
        .appName("bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def to_nothing(frame: DataFrame) -> None:
    """Run a DataFrame, and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


def in_turn(
    ours: Callable[[], object], peer: Callable[[], object], *, warm: int, repeats: int
) -> tuple[Timing, Timing]:
    """Time two kinds of work in turn, so that what else the machine does hits both; the first `warm` do not count."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(warm + repeats):
        for work, taken in zip((ours, peer), seconds, strict=True):
            start = time.perf_counter()
            work()
            if number >= warm:
                taken.append(time.perf_counter() - start)
    return timing(seconds[0]), timing(seconds[1])
