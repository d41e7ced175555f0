"""Packages that Spark finds by their names, of which one is broken: Spark then knows none of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import penstock

SCRIPT = """
import sys
from pyspark.sql import SparkSession
import penstock.spark as pks
from penstock.spark.session.java import use_java

use_java()
url, table, home = sys.argv[1:]
settings = {"spark.ui.enabled": "false", "spark.driver.memory": "700m", "spark.local.dir": home}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
print("columns", pks.read_stream(spark, url, table, images="after").columns[:2])
pks.views(spark, url, "shop")
print("rows", spark.table(table.partition(".")[2]).count())
"""


def test_a_discovery_that_failed_is_repaired_by_whatever_function_is_called_first(
    connection: penstock.Connection, url: str, path: str, tmp_path: Path, repository: Path
) -> None:
    table = connection.create_table(path, "id BIGINT, v INT, PRIMARY KEY (id)")
    table.upsert([{"id": 1, "v": 1}])
    (tmp_path / "pyspark_broken.py").write_text("raise RuntimeError('a package that does not load')")
    paths = os.pathsep.join((str(repository / "src"), str(tmp_path)))
    environment = os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, url, path, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["columns ['id', 'v']", "rows 1"]
