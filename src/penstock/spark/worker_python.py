"""The Python that Spark's workers run. It needs penstock as the driver's does, and need not be the driver's.

Spark starts `$PYSPARK_PYTHON`, or whatever `python3` is. A driver in a virtual environment that does not
say so has workers that know nothing of it, and their error does not say why.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.errors import InvalidError


def check_worker_python(spark: SparkSession) -> None:
    """Refuse a session whose workers run a Python without penstock, where this process can know.

    Through Connect it cannot, nor where the job ships its own files or archives to the workers.

    Raises:
        InvalidError: they do; the message says what to set.
    """
    context: SparkContext | None = getattr(spark, "sparkContext", None)
    if context is None or _ships_code(context):
        return
    found = shutil.which(context.pythonExec)
    if found is not None and not _is_ours(found) and not _has_penstock(found, os.environ.get("PYTHONPATH")):
        raise InvalidError(
            f"Spark's workers run a Python that does not have penstock; set PYSPARK_PYTHON={sys.executable} in the "
            "environment before the session starts, or install penstock there",
            python=found,
        )


def _ships_code(context: SparkContext) -> bool:
    conf = context.getConf()
    return any(conf.get(name) for name in ("spark.submit.pyFiles", "spark.archives", "spark.yarn.dist.archives"))


def _is_ours(found: str) -> bool:
    # Not by what the links lead to: a virtual environment's Python is a link to one outside of it.
    return os.path.dirname(os.path.abspath(found)) == os.path.dirname(os.path.abspath(sys.executable))


@functools.cache
def _has_penstock(python: str, path: str | None) -> bool:
    """Tell whether a Python can import us; `path` is the PYTHONPATH under which it was asked."""
    try:
        asked = subprocess.run([python, "-c", "import penstock"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0
