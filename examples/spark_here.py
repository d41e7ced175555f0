"""What the Spark examples stand on when run by themselves: a local Spark and a served Penstock."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from penstock.spark.session.java import use_java

Example = Callable[[SparkSession, str, Path], object]


def run_here(example: Example) -> None:
    """Run an example against a server and a Spark of its own, and print what it returns."""
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="penstock-") as directory, penstock.serve(f"{directory}/data") as server:
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        print(example(spark, server.url, Path(directory)))
        spark.stop()
